"""Acknowledges numbered events, so that the server need not keep them for a return."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["EventAcknowledger"]

ACK_INTERVAL_S = 1.0
ACK_BYTES = 256 * 1024


class EventAcknowledger:
    """One cumulative acknowledgement a second while events come, or a quarter of a MiB of them.

    Args:
        send: sends a frame, if there is a connection to send it on.
    """

    def __init__(self, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        self._send = send
        self._newest = 0
        self._bytes = 0
        self._some = asyncio.Event()
        self._many = asyncio.Event()

    def received(self, seq: int, size: int) -> None:
        """An event of ``size`` bytes was handed to everybody who listens."""
        self._newest = seq
        self._bytes += size
        self._some.set()
        if self._bytes >= ACK_BYTES:
            self._many.set()

    async def run(self) -> None:
        """Acknowledge until cancelled."""
        while True:
            await self._some.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ACK_INTERVAL_S):
                    await self._many.wait()
            self._some.clear()
            self._many.clear()
            self._bytes = 0
            await self._send({"type": "session.event_ack", "server_event_seq": self._newest})
