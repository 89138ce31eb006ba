"""Runs a part in this process as the server runs: its loop, its collector, both threads on a core.

Two threads never give more than one core of Python, and a wake-up of the other one costs two to
three times as much when that sleeps on another core.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from duplex_server.cli.process import loop_factory, tune_collector

__all__ = ["run_as_served"]

T = TypeVar("T")


def run_as_served(part: Coroutine[Any, Any, T]) -> T:
    """The result of ``part``, on an event loop of its own; everything is as before afterwards."""
    with _on_one_core(), _collector_tuned(), asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(part)


@contextmanager
def _on_one_core() -> Iterator[None]:
    """This thread, and those that it starts, on one core; where a platform lets us choose."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    # The first core of a machine is the one that interrupts go to.
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextmanager
def _collector_tuned() -> Iterator[None]:
    thresholds = gc.get_threshold()
    tune_collector()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
