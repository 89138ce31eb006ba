"""Which sessions are served by this process, and by which socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .delivery import SessionDelivery

if TYPE_CHECKING:
    from duplex_server.entrypoints import DuplexSessionHandle

__all__ = ["AttachmentRegistry", "ServedSession"]


class ServedSession:
    """A session with its delivery and the task that pumps it.

    Attributes:
        delivery: its outbound side.
        pump: done when the last event was delivered and the socket closed.
    """

    def __init__(self, delivery: SessionDelivery) -> None:
        self.delivery = delivery
        self.pump = asyncio.create_task(
            delivery.run(), name=f"deliver {delivery.handle.session_id}"
        )

    @property
    def handle(self) -> DuplexSessionHandle:
        """Of the session."""
        return self.delivery.handle


class AttachmentRegistry:
    """The served sessions by id. Belongs to the serving loop."""

    def __init__(self) -> None:
        self._sessions: dict[str, ServedSession] = {}

    def create(self, delivery: SessionDelivery) -> ServedSession:
        """Begin to deliver a session; it is forgotten when its last event is out."""
        served = ServedSession(delivery)
        session_id = delivery.handle.session_id
        self._sessions[session_id] = served
        served.pump.add_done_callback(lambda _: self._sessions.pop(session_id, None))
        return served

    def get(self, session_id: str) -> ServedSession | None:
        """The session, while it lives."""
        return self._sessions.get(session_id)

    @property
    def attached(self) -> int:
        """Sessions with a socket."""
        return sum(served.delivery.attachment is not None for served in self._sessions.values())

    async def wait_empty(self, timeout_s: float) -> bool:
        """Wait until every session has told its end; False when that took too long."""
        pumps = [served.pump for served in self._sessions.values()]
        if not pumps:
            return True
        _, pending = await asyncio.wait(pumps, timeout=timeout_s)
        return not pending
