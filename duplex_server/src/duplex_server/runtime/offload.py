"""A few threads for work that would hold the engine's loop up: decoding, resampling, detection."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from .crossing import Crossing

__all__ = ["Offload", "Outcome"]

logger = logging.getLogger(__name__)

CLOSE_WAIT_S = 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What became of a piece of work: a value or an exception."""

    value: T | None = None
    error: BaseException | None = None


_Job = tuple[Callable[[], Any], Callable[[Outcome[Any]], None]]


class Offload:
    """Runs work on daemon threads and reports on the loop.

    Daemon threads instead of an executor's: a hook that hangs must not keep the process alive.
    Several outcomes share one wake-up of the loop.

    Args:
        loop: where outcomes are reported.
        threads: how many, started when first needed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int = 4) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._crossing: Crossing[tuple[Callable[[Outcome[Any]], None], Outcome[Any]]] = Crossing(
            loop, lambda report: report[0](report[1])
        )
        self._limit = threads
        self._threads: list[threading.Thread] = []
        self._busy = 0

    def run(self, work: Callable[[], T], done: Callable[[Outcome[T]], None]) -> None:
        """Run ``work`` on a thread; then ``done`` on the loop, exactly once unless closed before.

        Call from the loop only.
        """
        self._busy += 1
        if self._busy > len(self._threads) < self._limit:
            self._start_thread()

        def report(outcome: Outcome[T]) -> None:
            self._busy -= 1
            done(outcome)

        self._jobs.put((work, report))

    def close(self) -> None:
        """Stop: queued work is dropped, outcomes are no longer reported; work under way may end.

        Waits a moment for it: a thread inside a native library when the interpreter goes away
        takes the whole process down with SIGABRT.
        """
        self._crossing.close()
        for _ in self._threads:
            self._jobs.put(None)
        deadline = time.monotonic() + CLOSE_WAIT_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start_thread(self) -> None:
        name = f"duplex-offload-{len(self._threads)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done = job
            try:
                outcome: Outcome[Any] = Outcome(work())
            except BaseException as error:
                # SystemExit out of a plugin's code would end this thread in silence.
                outcome = Outcome(error=error)
            if self._crossing.closed:
                return
            self._crossing.put((done, outcome))
