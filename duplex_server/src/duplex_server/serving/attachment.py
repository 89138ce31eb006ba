"""The binding of a session to one socket."""

from __future__ import annotations

import asyncio

from .websocket import RealtimeSocket, SocketGone

__all__ = ["Attachment"]

_STALLED_SEND_S = 40.0
"""A socket that takes nothing for so long is as dead as one that answers no ping."""
_FAREWELL_S = 1.0
"""What a replaced socket may take of its successor's time."""


class Attachment:
    """A socket that serves a session, or is about to. One task sends at a time.

    Attributes:
        generation: counts the sockets of a session from 1; 0 until the socket serves.
        lease_generation: of the lease this socket answers for; None until it holds one.
        ended: done when nothing more goes out on this socket.
        replaced: another socket took the session.
    """

    def __init__(self, socket: RealtimeSocket, lease_generation: int | None = None) -> None:
        self.generation = 0
        self.lease_generation = lease_generation
        self.replaced = False
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._latest = float("inf")
        self._sending: asyncio.Timeout | None = None

    def take_lease(self, generation: int) -> None:
        """Answer for this lease generation, unless for a newer one already."""
        if self.lease_generation is None or generation > self.lease_generation:
            self.lease_generation = generation

    async def send(self, frame: bytes) -> None:
        """Send a text message.

        Raises:
            SocketGone: the connection is over, or as good as.
        """
        until = min(self._loop.time() + _STALLED_SEND_S, self._latest)
        try:
            async with asyncio.timeout_at(until) as self._sending:
                await self._socket.send(frame.decode())
        except TimeoutError as error:
            raise SocketGone from error
        finally:
            self._sending = None

    def hurry(self) -> None:
        """Let the send under way fail soon: a successor waits, and this peer may be long gone."""
        self._latest = self._loop.time() + _FAREWELL_S
        if self._sending is not None:
            self._sending.reschedule(self._latest)

    async def close(self, code: int, reason: str) -> None:
        """Close the socket, which may be gone or take nothing; returns soon in any case."""
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await self._socket.close(code, reason)
        except TimeoutError:
            # The transport is closed when its handler returns.
            return
        finally:
            self.end()

    def end(self) -> None:
        """Nothing more goes out."""
        if not self.ended.done():
            self.ended.set_result(None)
