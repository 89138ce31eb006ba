"""What a client says about its connection; no server sends these."""

from __future__ import annotations

from typing import ClassVar

from duplex_sdk.protocol.duplex import DuplexEvent

__all__ = ["ConnectionLost", "ConnectionResumed"]


class ConnectionLost(DuplexEvent, frozen=True, kw_only=True):
    """The connection is gone, and the client tries to come back to its session.

    Until then commands wait. ``ConnectionResumed`` follows, or the listener's stream ends.

    Attributes:
        reason: what the connection died of.
    """

    type: ClassVar[str] = "connection.lost"
    WIRE: ClassVar[tuple[str, ...]] = ("session_id", "reason")

    reason: str


class ConnectionResumed(DuplexEvent, frozen=True, kw_only=True):
    """The session goes on over a new connection; the events that were missed follow.

    Attributes:
        outage_s: seconds without a connection.
        attempts: connections tried, the last one included.
        attachment_generation: how many sockets this session has had.
        missed: how many events follow that were missed; None where the server does not say.
    """

    type: ClassVar[str] = "connection.resumed"
    WIRE: ClassVar[tuple[str, ...]] = (
        "session_id",
        "outage_s",
        "attempts",
        "attachment_generation",
        "missed",
    )
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"missed"})

    outage_s: float
    attempts: int
    attachment_generation: int
    missed: int | None = None
