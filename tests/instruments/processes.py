"""Looking at other processes, which start, end and are reaped while they are looked at.

Every test that asks the operating system about a process asks here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import psutil

__all__ = ["PATIENCE_S", "children", "descendants", "eventually", "exists", "runs", "wait_until"]

PATIENCE_S = 60.0
"""How long another process or thread is waited for: never what is measured, only when to give up.

A machine may be many times slower than the one that a test was written on.
"""

_BETWEEN_LOOKS_S = 0.01


def children(pid: int | None = None) -> set[int]:
    """Ids of the processes whose parent is ``pid``, or this process.

    Those that have ended and were not waited for are among them. A process that is gone has none.
    """
    try:
        return {child.pid for child in psutil.Process(pid).children()}
    except psutil.NoSuchProcess:
        return set()


def descendants(pid: int) -> dict[int, str]:
    """Processes that a process started, directly or not: their commands by their ids."""
    found: dict[int, str] = {}
    for process in psutil.Process(pid).children(recursive=True):
        try:
            found[process.pid] = " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
    return found


def exists(pid: int) -> bool:
    """Whether the system still knows it: it runs, or it has ended and nobody waited for it."""
    return psutil.pid_exists(pid)


def runs(pid: int) -> bool:
    """Whether it does anything yet; without a reaper in its container an orphan stays a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def eventually(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait for what another process or thread brings about.

    Raises:
        TimeoutError: it did not come about.
    """
    async with asyncio.timeout(patience_s):
        while not condition():  # noqa: ASYNC110 - no event of this loop tells it
            await asyncio.sleep(_BETWEEN_LOOKS_S)


def wait_until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """``eventually`` for tests without a loop.

    Raises:
        TimeoutError: it did not come about.
    """
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not come about")
        time.sleep(_BETWEEN_LOOKS_S)
