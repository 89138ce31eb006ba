"""Keeps a session alive while nobody speaks, and notices a connection that is dead."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from .errors import ClientConnectionError

__all__ = ["Liveness"]


class Liveness:
    """Sends a heartbeat after silence in either direction, and expects a sign of life upon it.

    It begins with the first frame that comes in: opening a session has a time limit of its own.

    Args:
        send: sends a frame, if there is a connection to send it on.
        lost: called when the other side gives no sign of life.
        interval_s: of silence, before a heartbeat.
        answer_timeout_s: longest wait for a sign of life after a heartbeat.
    """

    def __init__(
        self,
        send: Callable[[dict[str, Any]], Awaitable[None]],
        lost: Callable[[ClientConnectionError], None],
        *,
        interval_s: float,
        answer_timeout_s: float,
    ) -> None:
        self._send = send
        self._lost = lost
        self._interval_s = interval_s
        self._answer_timeout_s = answer_timeout_s
        self._sent_at = 0.0
        self._received_at = 0.0
        self._asked_at: float | None = None
        self._begun = asyncio.Event()

    def sent(self) -> None:
        """A frame went out."""
        self._sent_at = asyncio.get_running_loop().time()

    def received(self) -> None:
        """A frame came in."""
        self._received_at = asyncio.get_running_loop().time()
        self._asked_at = None
        self._begun.set()

    def reset(self) -> None:
        """A new connection: nothing is owed on it."""
        self.sent()
        self.received()

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        await self._begun.wait()
        while True:
            await asyncio.sleep(max(0.0, self._due() - loop.time()))
            now = loop.time()
            if self._asked_at is not None and now >= self._asked_at + self._answer_timeout_s:
                self.reset()
                self._lost(ClientConnectionError("the server gives no sign of life"))
            elif now >= self._due():
                self._sent_at = now
                if self._asked_at is None:
                    self._asked_at = now
                await self._beat()

    async def _beat(self) -> None:
        # A connection that takes nothing any more would hold this up, and with it the verdict.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._answer_timeout_s):
                await self._send({"type": "session.heartbeat"})

    def _due(self) -> float:
        """When there is something to do, as things stand."""
        if self._asked_at is not None:
            return self._asked_at + self._answer_timeout_s
        return min(self._sent_at, self._received_at) + self._interval_s
