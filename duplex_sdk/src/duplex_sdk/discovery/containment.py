"""Running foreign code at import time without letting it take the command down."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from typing import TextIO, TypeVar

__all__ = ["ForeignCodeError", "contained", "describe"]

T = TypeVar("T")

_LONGEST = 300


class ForeignCodeError(Exception):
    """Foreign code raised; the cause is what it raised."""


def contained(
    call: Callable[[], T], *, prints: TextIO | None = None, limit_s: float | None = None
) -> T:
    """Call foreign code; what it prints goes elsewhere, so that stdout stays ours.

    Args:
        call: what to call.
        prints: takes what it prints; None: stderr does.
        limit_s: the longest it may take; it then runs on a thread of its own, which is left
            behind when it takes longer. None: as long as it likes, on this thread.

    Raises:
        ForeignCodeError: it raised anything, ``SystemExit`` included, or took too long.
        KeyboardInterrupt: the user gave up on it.
    """
    with contextlib.redirect_stdout(prints or sys.stderr):
        try:
            return call() if limit_s is None else _within(limit_s, call)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module that calls sys.exit() must not end the command
            raise ForeignCodeError(describe(error)) from error


def _within(limit_s: float, call: Callable[[], T]) -> T:
    """What a call returns or raises, if it does so in time.

    Raises:
        TimeoutError: it does not.
    """
    returned: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # raised again by who waits for it
            raised.append(error)

    # What hangs cannot be ended; as a daemon it keeps nobody from leaving.
    thread = threading.Thread(target=run, daemon=True, name="duplex-foreign-code")
    thread.start()
    thread.join(limit_s)
    if raised:
        raise raised[0]
    if not returned:
        raise TimeoutError(f"it takes more than {limit_s:g} s")
    return returned[0]


def describe(error: BaseException) -> str:
    """An exception in one line, of bearable length."""
    text = " ".join(str(error).split())
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return f"{type(error).__name__}: {short}" if short else type(error).__name__
