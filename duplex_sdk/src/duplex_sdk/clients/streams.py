"""Bounded queues between the one reader of a transport and everybody who listens.

The reader never waits: what a slow listener cannot hold is settled by that listener's policy.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from enum import Enum
from typing import Generic, Self, TypeVar

from .errors import SubscriberOverflowError

__all__ = ["DEFAULT_STREAM_SIZE", "BoundedStream", "OverflowPolicy"]

DEFAULT_STREAM_SIZE = 1024

T = TypeVar("T")


class OverflowPolicy(Enum):
    """What happens when a listener's queue is full.

    ``FAIL`` ends that listener with ``SubscriberOverflowError`` after what it still holds.
    ``DROP_OLDEST`` keeps the newest and counts the loss; for observers that may miss things.
    """

    FAIL = "fail"
    DROP_OLDEST = "drop_oldest"


class BoundedStream(AsyncIterator[T], Generic[T]):
    """One listener's queue: filled from the loop's thread, read by one task.

    Iteration ends when the source closes the stream and everything queued was read.

    Attributes:
        dropped: entries lost under ``DROP_OLDEST``.
    """

    def __init__(
        self,
        size: int = DEFAULT_STREAM_SIZE,
        policy: OverflowPolicy = OverflowPolicy.FAIL,
        *,
        on_close: Callable[[BoundedStream[T]], None] | None = None,
    ) -> None:
        if size < 1:
            raise ValueError("a stream holds at least one entry")
        self._size = size
        self._policy = policy
        self._entries: deque[T] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._finished = False
        self._failure: Exception | None = None
        self._on_close = on_close
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def finished(self) -> bool:
        """Whether nothing more will be put in."""
        return self._finished

    def put(self, entry: T) -> None:
        """Hand over an entry; returns at once, whatever the listener does."""
        if self._finished:
            return
        if len(self._entries) >= self._size:
            if self._policy is OverflowPolicy.FAIL:
                self.finish(SubscriberOverflowError(f"a reader left {self._size} events unread"))
                return
            self._entries.popleft()
            self.dropped += 1
        self._entries.append(entry)
        self._wake()

    def finish(self, failure: Exception | None = None) -> None:
        """No more entries: iteration ends, or raises ``failure``, after what is queued."""
        if self._finished:
            return
        self._finished = True
        self._failure = failure
        self._wake()
        if self._on_close is not None:
            self._on_close(self)

    def discard(self) -> None:
        """Forget what is queued."""
        self._entries.clear()

    def close(self) -> None:
        """The listener is no longer interested."""
        self.finish()
        self.discard()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._entries:
            if self._finished:
                if self._failure is not None:
                    raise self._failure
                raise StopAsyncIteration
            await self._changed()
        return self._entries.popleft()

    async def _changed(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("a stream is read by one task at a time")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
