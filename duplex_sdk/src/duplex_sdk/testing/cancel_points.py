"""Cancelling a coroutine at every place where it waits, one after the other.

A place is a number: the first wait of the coroutine is 1, whatever it waits in. A sweep counts them
up until a run ends before it gets there::

    for moment in Moment:
        place = 1
        while (await cancelled_at(work(), place, moment)).reached:
            ...  # nothing may be left
            place += 1
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

__all__ = ["CancelPoint", "Moment", "Swept", "cancelled_at"]

T = TypeVar("T")


class Moment(Enum):
    """When a waiting coroutine is cancelled.

    Attributes:
        WAITING: as soon as it waits; what it waits for is called off too.
        ARRIVED: what it waits for is there, and it has not gone on yet.
    """

    WAITING = "waiting"
    ARRIVED = "arrived"


@dataclass(frozen=True, slots=True)
class Swept(Generic[T]):
    """How a run went.

    Attributes:
        reached: it was cancelled; False: it ended before that place.
        result: what it returned, None when it raised.
        error: what it raised.
    """

    reached: bool
    result: T | None
    error: BaseException | None


class CancelPoint:
    """Counts waits, of one coroutine or of several, and cancels the task that waits at a place.

    Args:
        place: number of the wait, from 1.
        moment: when it is cancelled there.

    Attributes:
        reached: the place was reached.
    """

    def __init__(self, place: int, moment: Moment) -> None:
        self.reached = False
        self._left = place
        self._moment = moment

    def watching(self, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """The same work, its waits counted; for one task to run."""
        return _Stepped(work, self)

    def waits(self, pending: Any) -> None:
        """The current task is about to wait for this."""
        self._left -= 1
        if self._left:
            return
        self.reached = True
        task = asyncio.current_task()
        assert task is not None
        if self._moment is Moment.ARRIVED and isinstance(pending, asyncio.Future):
            # Before the task's own callback, which is added once this has been yielded.
            pending.add_done_callback(lambda _: task.cancel())
        else:
            task.cancel()


class _Stepped(Coroutine[Any, Any, T]):
    """Passes every step on; what the work waits for is shown to the point first."""

    def __init__(self, work: Coroutine[Any, Any, T], point: CancelPoint) -> None:
        self._work = work
        self._point = point

    def send(self, value: Any) -> Any:
        pending = self._work.send(value)
        self._point.waits(pending)
        return pending

    def throw(self, *error: Any) -> Any:
        pending = self._work.throw(*error)
        self._point.waits(pending)
        return pending

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise TypeError("a task runs this; awaited, its waits would be those of others")


async def cancelled_at(work: Coroutine[Any, Any, T], place: int, moment: Moment) -> Swept[T]:
    """Run a coroutine as a task that is cancelled at one place; returns when it has ended.

    Args:
        work: the coroutine.
        place: which of its waits, from 1.
        moment: when it is cancelled there.
    """
    point = CancelPoint(place, moment)
    task = asyncio.get_running_loop().create_task(point.watching(work))
    await asyncio.wait({task})
    if task.cancelled():
        return Swept(point.reached, None, asyncio.CancelledError())
    error = task.exception()
    return Swept(point.reached, None if error is not None else task.result(), error)
