"""From the engine's thread to whoever reads an answer."""

from __future__ import annotations

import asyncio
import queue
from functools import partial
from typing import TYPE_CHECKING

from duplex_server.engine.turn_requests import AnswerSink
from duplex_server.runtime.loop_calls import call_on

if TYPE_CHECKING:
    from duplex_server.engine.turn_requests import AnswerEnd, AnswerPiece

__all__ = ["LoopSink", "ThreadSink"]


class LoopSink(AnswerSink):
    """For a reader on the event loop that is running now."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[AnswerPiece | AnswerEnd] = asyncio.Queue()

    async def get(self) -> AnswerPiece | None:
        """The next piece; None after the whole answer. Raises what ended it before."""
        return self._taken(await self._items.get())

    def _send(self, item: AnswerPiece | AnswerEnd) -> None:
        call_on(self._loop, partial(self._items.put_nowait, item))


class ThreadSink(AnswerSink):
    """For a reader that blocks its thread."""

    def __init__(self) -> None:
        super().__init__()
        self._items: queue.SimpleQueue[AnswerPiece | AnswerEnd] = queue.SimpleQueue()

    def get(self) -> AnswerPiece | None:
        """The next piece; None after the whole answer. Raises what ended it before."""
        return self._taken(self._items.get())

    def _send(self, item: AnswerPiece | AnswerEnd) -> None:
        self._items.put(item)
