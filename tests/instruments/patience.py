"""Waiting for what another thread, process or peer brings about: how long, and how."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

__all__ = ["PATIENCE_S", "eventually", "wait_until"]

PATIENCE_S = 60.0
"""When a test gives up waiting; nothing that it measures, and never a claim of how long it takes.

A machine may be many times slower than the one that a test was written on, so this is the one limit
of all of them, less than what pytest allows a test.
"""

_BETWEEN_LOOKS_S = 0.005


async def eventually(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds of which no event of this loop tells.

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
