"""Many schedules, in several processes, until enough have run or the time is over."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field

from duplex_sdk.testing.invariants import Tally

from .interruption import Interruption, unheard
from .kinds import SCRIPTED_KINDS, Kind, kinds_of
from .schedule import Failure, Schedule, draw, run
from .shrink import shrink

__all__ = ["Soak", "SoakResult", "soak"]

_CHUNK = 50
"""Schedules that a process runs before it looks up."""

_COLLECTS_AT = (20_000, 20, 20)
"""Objects after which a process that only simulates looks for what holds itself."""

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
        interrupted: it was asked to end before it was through.
        next_seed: all schedules of the seeds before it ran.
    """

    schedules: int
    seconds: float
    failed: tuple[Schedule, Failure] | None = None
    seed: int | None = None
    looked: Tally = field(default_factory=Counter)
    trace: tuple[str, ...] = ()
    interrupted: bool = False
    next_seed: int = 0


def soak(
    what: Soak,
    progress: Callable[[int], None] = lambda ran: None,
    interruption: Interruption | None = None,
) -> SoakResult:
    """Run schedules until one fails, enough have run, the time is over, or somebody asks.

    Args:
        what: to run.
        progress: told how many have run, now and then.
        interruption: through which it may be asked to end; schedules under way are finished.

    Raises:
        PluginNotFoundError: no such plugin is installed.
        PluginSpecError: it has no such option, or does not take the value.
    """
    kinds = what.kinds()
    stop = Interruption() if interruption is None else interruption
    began = time.monotonic()
    processes = what.processes or os.cpu_count() or 1
    chunks = _chunks(what, began, stop)
    parts = _here(what, chunks, stop) if processes == 1 else _spread(what, chunks, stop, processes)
    total = _Total(what.seed)
    with closing(parts):
        for part in parts:
            total.add(part)
            progress(total.ran)
            if part.broken is not None:
                break
    seconds = time.monotonic() - began
    if total.broken is None:
        return SoakResult(
            total.ran,
            seconds,
            looked=total.looked,
            interrupted=stop.asked,
            next_seed=total.next_seed,
        )
    schedule = draw(total.broken, kinds)
    failure = run(schedule, kinds)
    assert failure is not None, f"seed {total.broken} fails in a process of its own only"
    short = shrink(schedule, failure, kinds)
    trace: list[str] = []
    run(short[0], kinds, note=trace.append)
    return SoakResult(total.ran, seconds, short, total.broken, total.looked, tuple(trace))


@dataclass(frozen=True)
class _Part:
    """What came of one piece of the work.

    Attributes:
        first: its first seed.
        asked: how many schedules it was.
        ran: how many of them ran.
        broken: the seed of one that failed.
        looked: what the laws had to look at.
    """

    first: int
    asked: int
    ran: int
    broken: int | None
    looked: Tally


class _Total:
    """What came of all pieces so far.

    Args:
        seed: of the first schedule.
    """

    def __init__(self, seed: int) -> None:
        self.ran = 0
        self.broken: int | None = None
        self.looked: Tally = Counter()
        self._end = seed
        self._left: list[int] = []

    def add(self, part: _Part) -> None:
        """One more is through."""
        self.ran += part.ran
        self.looked += part.looked
        self.broken = part.broken
        self._end = max(self._end, part.first + part.asked)
        if part.ran < part.asked:
            self._left.append(part.first + part.ran)

    @property
    def next_seed(self) -> int:
        """The first that did not run."""
        return min(self._left, default=self._end)


_stop: Interruption | None = None
"""In a process that works at a soak: how it hears that this is to end."""


def _begin(stop: Interruption) -> None:
    """A process begins, which does nothing else."""
    global _stop
    _stop = stop
    # What was imported lives as long as the process, and a life leaves little that holds itself.
    gc.freeze()
    gc.set_threshold(*_COLLECTS_AT)


def _here(
    what: Soak, chunks: Iterator[tuple[int, int]], stop: Interruption
) -> Generator[_Part, None, None]:
    for first, count in chunks:
        yield _chunk(what, first, count, stop)


def _spread(
    what: Soak, chunks: Iterator[tuple[int, int]], stop: Interruption, processes: int
) -> Generator[_Part, None, None]:
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(stop,))
    try:
        waiting: set[Future[_Part]] = set()
        while True:
            while len(waiting) < 2 * processes and (chunk := next(chunks, None)) is not None:
                with unheard():
                    waiting.add(pool.submit(_chunk, what, *chunk))
            if not waiting:
                return
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for each in done:
                yield each.result()
    except KeyboardInterrupt:
        # Nobody waits any more, not even for a model that hangs.
        for process in set(multiprocessing.active_children()) - others:
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _chunks(what: Soak, began: float, stop: Interruption) -> Iterator[tuple[int, int]]:
    """First seed and number of schedules of one piece of the work after the other."""
    first = 0
    while (what.schedules is None or first < what.schedules) and not stop.asked:
        if what.seconds is not None and time.monotonic() - began >= what.seconds:
            return
        count = _CHUNK if what.schedules is None else min(_CHUNK, what.schedules - first)
        yield what.seed + first, count
        first += count


def _chunk(what: Soak, first: int, count: int, stop: Interruption | None = None) -> _Part:
    """Run schedules until one fails, or somebody asks for the end."""
    kinds, stop = what.kinds(), stop or _stop
    looked: Tally = Counter()
    for number in range(count):
        if stop is not None and stop.asked:
            return _Part(first, count, number, None, looked)
        if run(draw(first + number, kinds), kinds, looked) is not None:
            return _Part(first, count, number + 1, first + number, looked)
    return _Part(first, count, count, None, looked)
