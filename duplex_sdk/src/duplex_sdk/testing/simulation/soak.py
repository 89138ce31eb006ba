"""Many schedules, in several processes, until enough have run or the time is over."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

from .kinds import SCRIPTED_KINDS, Kind, kinds_of
from .schedule import Failure, Schedule, draw, run
from .shrink import shrink

__all__ = ["Soak", "SoakResult", "soak"]

_CHUNK = 50
"""Schedules that a process runs before it looks up."""


@dataclass(frozen=True)
class Soak:
    """What to run.

    Attributes:
        seed: of the first schedule; the others follow.
        schedules: how many; None: until the time is over.
        seconds: how long; None: until all have run.
        plugin: whose sessions, by its installed name; None: the scripted ones of every manner.
        processes: how many work at it; None: one for each processor.
    """

    seed: int = 0
    schedules: int | None = None
    seconds: float | None = None
    plugin: str | None = None
    processes: int | None = None


@dataclass(frozen=True)
class SoakResult:
    """How it went.

    Attributes:
        schedules: how many ran.
        seconds: by the clock on the wall.
        failed: the first schedule that failed, as short as it could be made, and how.
        seed: of that schedule.
    """

    schedules: int
    seconds: float
    failed: tuple[Schedule, Failure] | None = None
    seed: int | None = None


def soak(what: Soak, progress: Callable[[int], None] = lambda ran: None) -> SoakResult:
    """Run schedules until one fails, enough have run, or the time is over.

    Args:
        what: to run.
        progress: told how many have run, now and then.

    Raises:
        PluginNotFoundError: no such plugin is installed.
    """
    kinds = _kinds(what.plugin)
    began = time.monotonic()
    processes = what.processes or os.cpu_count() or 1
    ran, broken = 0, None
    if processes == 1:
        results = (_chunk(what.plugin, first, count) for first, count in _chunks(what, began))
        for count, broken in results:
            ran += count
            progress(ran)
            if broken is not None:
                break
    else:
        ran, broken = _in_processes(what, began, processes, progress)
    seconds = time.monotonic() - began
    if broken is None:
        return SoakResult(ran, seconds)
    schedule = draw(broken, kinds)
    failure = run(schedule, kinds)
    assert failure is not None, f"seed {broken} fails in a process of its own only"
    return SoakResult(ran, seconds, shrink(schedule, failure, kinds), broken)


def _in_processes(
    what: Soak, began: float, processes: int, progress: Callable[[int], None]
) -> tuple[int, int | None]:
    ran = 0
    chunks = _chunks(what, began)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        waiting: set[Future[tuple[int, int | None]]] = set()
        while True:
            while len(waiting) < 2 * processes and (chunk := next(chunks, None)) is not None:
                waiting.add(pool.submit(_chunk, what.plugin, *chunk))
            if not waiting:
                return ran, None
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for each in done:
                count, broken = each.result()
                ran += count
                progress(ran)
                if broken is not None:
                    pool.shutdown(cancel_futures=True)
                    return ran, broken


def _chunks(what: Soak, began: float) -> Iterator[tuple[int, int]]:
    """First seed and number of schedules of one piece of the work after the other."""
    first = 0
    while what.schedules is None or first < what.schedules:
        if what.seconds is not None and time.monotonic() - began >= what.seconds:
            return
        count = _CHUNK if what.schedules is None else min(_CHUNK, what.schedules - first)
        yield what.seed + first, count
        first += count


def _chunk(plugin: str | None, first: int, count: int) -> tuple[int, int | None]:
    """How many ran, and the seed of one that failed."""
    kinds = _kinds(plugin)
    for number in range(count):
        if run(draw(first + number, kinds), kinds) is not None:
            return number + 1, first + number
    return count, None


_KINDS: dict[str, Mapping[str, Kind]] = {}


def _kinds(plugin: str | None) -> Mapping[str, Kind]:
    if plugin is None:
        return SCRIPTED_KINDS
    if plugin not in _KINDS:
        from duplex_sdk.discovery import find, load_plugin

        _KINDS[plugin] = kinds_of(load_plugin(find(plugin), {}))
    return _KINDS[plugin]
