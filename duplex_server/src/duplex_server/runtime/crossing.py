"""From one thread to another: a deque and a flag.

A wake-up of another loop costs ten times what carrying an item costs, so items share them: ``put``
wakes only when nobody has since the last drain, and from inside a loop it does so at the end of
that loop's turn. The drain lowers the flag first and then empties the deque; an item put in between
is either taken by that drain or raises the flag again.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Crossing"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Crossing(Generic[T]):
    """Items put from any thread, delivered one by one, in order, on one loop.

    Args:
        loop: where ``deliver`` is called.
        deliver: takes one item. An exception is logged and ends nothing else.
        drained: called after each drain, on the loop.
        limit: how many items may be on their way; None: any number.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[T], None],
        drained: Callable[[], None] | None = None,
        *,
        limit: int | None = None,
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._drained = drained
        self._limit = math.inf if limit is None else limit
        self._items: deque[T] = deque()
        self._raised = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def closed(self) -> bool:
        """The other side is gone: nothing is delivered any more."""
        return self._closed

    def put(self, item: T) -> bool:
        """Hand an item over, from any thread, without waiting.

        False: it was not taken, since the other side is gone or has the limit before it.
        """
        if self._closed or len(self._items) >= self._limit:
            return False
        self._items.append(item)
        if not self._raised:
            self._raised = True
            self._wake()
        return True

    def close(self) -> None:
        """Deliver nothing more."""
        self._closed = True
        self._items.clear()

    def _wake(self) -> None:
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            self._signal()
            return
        running.call_soon(self._drain if running is self._loop else self._signal)

    def _signal(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:
            # The loop was closed between two puts.
            self._closed = True

    def _drain(self) -> None:
        self._raised = False
        items = self._items
        while items:
            item = items.popleft()
            try:
                self._deliver(item)
            except Exception:
                logger.exception("delivering %s failed", type(item).__name__)
        if self._drained is not None:
            self._drained()
