"""Running foreign code at import time without letting it take the command down."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import TextIO, TypeVar

__all__ = ["ForeignCodeError", "contained", "describe"]

T = TypeVar("T")

_LONGEST = 300


class ForeignCodeError(Exception):
    """Foreign code raised; the cause is what it raised."""


def contained(call: Callable[[], T], *, prints: TextIO | None = None) -> T:
    """Call foreign code; what it prints goes elsewhere, so that stdout stays ours.

    Args:
        call: what to call.
        prints: takes what it prints; None: stderr does.

    Raises:
        ForeignCodeError: it raised anything, ``SystemExit`` included.
        KeyboardInterrupt: the user gave up on it.
    """
    with contextlib.redirect_stdout(prints or sys.stderr):
        try:
            return call()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module that calls sys.exit() must not end the command
            raise ForeignCodeError(describe(error)) from error


def describe(error: BaseException) -> str:
    """An exception in one line, of bearable length."""
    text = " ".join(str(error).split())
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return f"{type(error).__name__}: {short}" if short else type(error).__name__
