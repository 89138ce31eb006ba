"""Calling into another thread's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["call_on"]


def call_on(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Run a callback on a loop from any thread; a loop that is closed is passed over."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        return
