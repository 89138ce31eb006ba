"""An interruption of a soak: what runs is finished and counted, and nothing new begins."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Interruption", "unheard"]


class Interruption:
    """Asks a soak to come to its end, from any process that works at it or from a signal handler.

    A plain byte that processes share: an event would take a lock, which a handler may find taken
    by what it interrupted.
    """

    def __init__(self) -> None:
        self._asked = multiprocessing.get_context("spawn").RawValue("b", 0)

    def ask(self) -> None:
        """Come to an end. Returns at once; again is harmless."""
        self._asked.value = 1

    @property
    def asked(self) -> bool:
        """Whether somebody asked."""
        return bool(self._asked.value)


@contextmanager
def unheard() -> Iterator[None]:
    """Processes that begin in this block never hear of Ctrl-C, from their first moment on.

    A terminal sends the signal to them as well; only who began them is to answer it. What a
    process does not hear is handed down to those it begins.
    """
    if sys.platform == "win32":
        yield
        return
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)
