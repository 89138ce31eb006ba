"""What a process that serves sets for itself: its collector and its loop."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
from collections.abc import Callable

__all__ = ["loop_factory", "tune_collector"]


def tune_collector() -> None:
    """Keep full collections rare, and away from what exists already; call it once all is loaded."""
    # At 2000 connections a full collection with the default thresholds stops everything for 50 to
    # 120 ms. Everything made so far lives as long as the process, so it need not be looked at.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 1_000)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Makes the process's event loop, for ``asyncio.Runner``; None: asyncio's own."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
