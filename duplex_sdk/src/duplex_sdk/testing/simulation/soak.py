"""Many schedules, in several processes, until enough have run or the time is over."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field

from duplex_sdk.testing.invariants import Tally

from .kinds import SCRIPTED_KINDS, Kind, kinds_of
from .schedule import Failure, Schedule, draw, run
from .shrink import shrink

__all__ = ["Soak", "SoakResult", "soak"]

_CHUNK = 50
"""Schedules that a process runs before it looks up."""

_Option = str | int | float | bool

_KINDS: dict[tuple[str, tuple[tuple[str, _Option], ...]], Mapping[str, Kind]] = {}


@dataclass(frozen=True)
class Soak:
    """What to run.

    Attributes:
        seed: of the first schedule; the others follow.
        schedules: how many; None: until the time is over.
        seconds: how long; None: until all have run.
        plugin: whose sessions, by its installed name; None: the scripted ones of every manner.
        options: of the plugin, by name; values as text or typed.
        processes: how many work at it; None: one for each processor.
    """

    seed: int = 0
    schedules: int | None = None
    seconds: float | None = None
    plugin: str | None = None
    options: Mapping[str, _Option] = field(default_factory=dict)
    processes: int | None = None

    def kinds(self) -> Mapping[str, Kind]:
        """What its clients may be; the models of a plugin are loaded once in a process.

        Raises:
            PluginNotFoundError: no such plugin is installed.
            PluginSpecError: it has no such option, or does not take the value.
        """
        if self.plugin is None:
            return SCRIPTED_KINDS
        key = (self.plugin, tuple(sorted(self.options.items())))
        if key not in _KINDS:
            from duplex_sdk.discovery import find, load_plugin

            _KINDS[key] = kinds_of(load_plugin(find(self.plugin), self.options))
        return _KINDS[key]


@dataclass(frozen=True)
class SoakResult:
    """How it went.

    Attributes:
        schedules: how many ran.
        seconds: by the clock on the wall.
        failed: the first schedule that failed, as short as it could be made, and how.
        seed: of that schedule.
        looked: how often each law, by its number, had something to look at.
        trace: what happened in the shortened schedule, a line for each action and each step.
    """

    schedules: int
    seconds: float
    failed: tuple[Schedule, Failure] | None = None
    seed: int | None = None
    looked: Tally = field(default_factory=Counter)
    trace: tuple[str, ...] = ()


def soak(what: Soak, progress: Callable[[int], None] = lambda ran: None) -> SoakResult:
    """Run schedules until one fails, enough have run, or the time is over.

    Args:
        what: to run.
        progress: told how many have run, now and then.

    Raises:
        PluginNotFoundError: no such plugin is installed.
        PluginSpecError: it has no such option, or does not take the value.
    """
    kinds = what.kinds()
    began = time.monotonic()
    processes = what.processes or os.cpu_count() or 1
    ran, broken = 0, None
    looked: Tally = Counter()
    with closing(
        _here(what, began) if processes == 1 else _spread(what, began, processes)
    ) as parts:
        for part in parts:
            ran += part.ran
            looked += part.looked
            progress(ran)
            if part.broken is not None:
                broken = part.broken
                break
    seconds = time.monotonic() - began
    if broken is None:
        return SoakResult(ran, seconds, looked=looked)
    schedule = draw(broken, kinds)
    failure = run(schedule, kinds)
    assert failure is not None, f"seed {broken} fails in a process of its own only"
    short = shrink(schedule, failure, kinds)
    trace: list[str] = []
    run(short[0], kinds, note=trace.append)
    return SoakResult(ran, seconds, short, broken, looked, tuple(trace))


@dataclass(frozen=True)
class _Part:
    """How many ran, the seed of one that failed, and what the laws had to look at."""

    ran: int
    broken: int | None
    looked: Tally


def _here(what: Soak, began: float) -> Generator[_Part, None, None]:
    for first, count in _chunks(what, began):
        yield _chunk(what, first, count)


def _spread(what: Soak, began: float, processes: int) -> Generator[_Part, None, None]:
    chunks = _chunks(what, began)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context)
    try:
        waiting: set[Future[_Part]] = set()
        while True:
            while len(waiting) < 2 * processes and (chunk := next(chunks, None)) is not None:
                waiting.add(pool.submit(_chunk, what, *chunk))
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for each in done:
                yield each.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _chunks(what: Soak, began: float) -> Iterator[tuple[int, int]]:
    """First seed and number of schedules of one piece of the work after the other."""
    first = 0
    while what.schedules is None or first < what.schedules:
        if what.seconds is not None and time.monotonic() - began >= what.seconds:
            return
        count = _CHUNK if what.schedules is None else min(_CHUNK, what.schedules - first)
        yield what.seed + first, count
        first += count


def _chunk(what: Soak, first: int, count: int) -> _Part:
    """Run schedules until one fails."""
    kinds = what.kinds()
    looked: Tally = Counter()
    for number in range(count):
        if run(draw(first + number, kinds), kinds, looked) is not None:
            return _Part(number + 1, first + number, looked)
    return _Part(count, None, looked)
