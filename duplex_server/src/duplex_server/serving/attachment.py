"""The binding of a session to one socket."""

from __future__ import annotations

import asyncio

from .websocket import RealtimeSocket, SocketGone

__all__ = ["Attachment"]

_STALLED_SEND_S = 40.0
"""A socket that takes nothing for so long is as dead as one that answers no ping."""
_FAREWELL_S = 1.0
"""What a socket may take of its successor's time, and what a close may take."""


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
        self._sender: asyncio.Task[object] | None = None
        self._sending_since = 0.0
        self._latest = float("inf")
        self._cut = False
        self._watch: asyncio.TimerHandle | None = None

    def take_lease(self, generation: int) -> None:
        """Answer for this lease generation, unless for a newer one already."""
        if self.lease_generation is None or generation > self.lease_generation:
            self.lease_generation = generation

    async def send(self, frame: bytes) -> None:
        """Send a text message.

        Raises:
            SocketGone: the connection is over, or as good as.
        """
        # One timer watches all sends of a socket: a timeout of its own would cost each of them
        # more than sending does.
        sender = asyncio.current_task()
        assert sender is not None
        cancelling = sender.cancelling()
        self._sender = sender
        self._sending_since = self._loop.time()
        if self._watch is None:
            self._watch = self._loop.call_at(self._limit(), self._look)
        try:
            await self._socket.send(frame.decode())
        except asyncio.CancelledError:
            if self._cut and sender.uncancel() <= cancelling:
                raise SocketGone from None
            raise
        finally:
            self._sender = None
            self._cut = False

    def hurry(self) -> None:
        """Let the send under way fail soon: a successor waits, and this peer may be long gone."""
        self._latest = self._loop.time() + _FAREWELL_S
        if self._watch is not None:
            self._watch.cancel()
            self._watch = self._loop.call_at(self._limit(), self._look)

    def relax(self) -> None:
        """The successor waits no more: sends may take their time again."""
        self._latest = float("inf")

    async def say_farewell(self, frame: bytes, code: int, reason: str) -> None:
        """Send one last message and close; a peer that is gone or takes nothing is no error."""
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await self._socket.send(frame.decode())
        except (SocketGone, TimeoutError):
            pass
        await self.close(code, reason)

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
        if self._watch is not None and self._sender is None:
            self._watch.cancel()
            self._watch = None
        if not self.ended.done():
            self.ended.set_result(None)

    def _limit(self) -> float:
        return min(self._sending_since + _STALLED_SEND_S, self._latest)

    def _look(self) -> None:
        self._watch = None
        if self._sender is None:
            return
        if self._loop.time() < self._limit():
            self._watch = self._loop.call_at(self._limit(), self._look)
        elif not self._cut:
            self._cut = True
            self._sender.cancel()
