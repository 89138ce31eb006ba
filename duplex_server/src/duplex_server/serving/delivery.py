"""What a session's clients get: one pump per session, one order, one numbering."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from duplex_sdk.protocol.duplex import DuplexEvent, ErrorEvent, SessionClosed, SessionCreated
from duplex_sdk.session.ids import IdSource

from .metrics import SessionObserver
from .profiles import ConnectionProfile
from .websocket import RealtimeSocket, SocketGone

if TYPE_CHECKING:
    from duplex_server.entrypoints import DuplexSessionHandle

__all__ = ["Attachment", "SessionDelivery"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """The binding of a session to its present socket; generations count from 1."""

    generation: int
    socket: RealtimeSocket


class SessionDelivery:
    """Takes a session's events to whatever socket is attached. Belongs to the serving loop.

    Validity, number and sending happen under one lock, so that the order on the wire is the order
    of the numbers. A failed send detaches the socket; events go on being numbered.

    Args:
        handle: of the session; this object is the only reader of its events.
        profile: of the session.
        attachment: the socket it begins with.
        ids: where event ids come from.
        observer: sees every event that is sent.

    Attributes:
        attachment: the present socket; None once it is lost.
        newest_seq: number of the newest numbered event, 0 before the first.
        announced: a client was sent ``session.created``.
    """

    def __init__(
        self,
        handle: DuplexSessionHandle,
        profile: ConnectionProfile,
        attachment: Attachment,
        *,
        ids: IdSource,
        observer: SessionObserver,
    ) -> None:
        self.handle = handle
        self.profile = profile
        self.attachment: Attachment | None = attachment
        self.newest_seq = 0
        self.announced = False
        self._ids = ids
        self._observer = observer
        self._outbound = asyncio.Lock()
        self._terminal: SessionClosed | None = None

    async def run(self) -> None:
        """Deliver until the session's stream ends, then close the socket as the profile says."""
        async for event in self.handle.events():
            self._observer.event(event)
            if isinstance(event, SessionClosed):
                self._terminal = event
            for outgoing in self.profile.outgoing(event):
                await self._deliver(outgoing)
        await self._close_socket()

    async def send_local(self, event: ErrorEvent) -> None:
        """Send an answer of the connection layer: unnumbered, past what the session has queued."""
        self._observer.event(event)
        async with self._outbound:
            await self._send(self.profile.render(event))

    async def close_attachment(self, code: int, reason: str) -> None:
        """Close the attached socket, if any; the session goes on until it is closed itself."""
        attachment, self.attachment = self.attachment, None
        if attachment is not None:
            await attachment.socket.close(code, reason)

    async def _deliver(self, event: DuplexEvent) -> None:
        async with self._outbound:
            payload = self.profile.render(event)
            with self.handle.output_guard(event) as valid:
                if not valid:
                    return
                if not isinstance(event, SessionCreated):
                    self.newest_seq += 1
                    payload["server_event_seq"] = self.newest_seq
            sent = await self._send(payload)
        if sent and isinstance(event, SessionCreated):
            self.announced = True

    async def _send(self, payload: dict[str, object]) -> bool:
        attachment = self.attachment
        if attachment is None:
            return False
        try:
            await attachment.socket.send(msgspec.json.encode(payload).decode())
        except SocketGone:
            self.attachment = None
            return False
        return True

    async def _close_socket(self) -> None:
        if self.attachment is None:
            return
        ending = self.profile.ending(self._terminal, self.handle.close_reason or "internal_error")
        if ending.error is not None:
            error = ending.error
            if not error.event_id:
                error = msgspec.structs.replace(error, event_id=self._ids.event())
            await self.send_local(error)
        await self.close_attachment(ending.code, ending.reason)
