"""Client frames that the connection answers itself: they are no commands of a session."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from duplex_sdk.protocol.realtime.errors import RealtimeProtocolError
from duplex_sdk.protocol.realtime.fields import Fields

__all__ = ["EventAck", "ResumeRequest", "read_event_ack", "read_resume_request"]


class ResumeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``session.resume``: this socket wants a session that is already there.

    Attributes:
        last_received_server_event_seq: replay begins after this number.
    """

    type: ClassVar[str] = "session.resume"

    session_id: str
    resume_token: str
    last_received_server_event_seq: int = 0
    event_id: str | None = None

    def __repr__(self) -> str:
        """Without the token: a log line must not open a session."""
        return f"ResumeRequest(session_id={self.session_id!r}, resume_token='***')"


class EventAck(msgspec.Struct, frozen=True, kw_only=True):
    """``session.event_ack``: events up to this number need not be kept for replay."""

    type: ClassVar[str] = "session.event_ack"

    server_event_seq: int
    event_id: str | None = None


def read_resume_request(fields: Fields, event_id: str | None = None) -> ResumeRequest:
    """Read ``session.resume``.

    Raises:
        RealtimeProtocolError: ``invalid_session_resume``.
    """
    last = fields.values.get("last_received_server_event_seq")
    return ResumeRequest(
        event_id=event_id,
        session_id=_word(fields, "session_id"),
        resume_token=_word(fields, "resume_token"),
        last_received_server_event_seq=0
        if last is None
        else _sequence(last, "last_received_server_event_seq", "invalid_session_resume"),
    )


def read_event_ack(fields: Fields, event_id: str | None = None) -> EventAck:
    """Read ``session.event_ack``.

    Raises:
        RealtimeProtocolError: ``invalid_event_ack``.
    """
    number = _sequence(
        fields.values.get("server_event_seq"), "server_event_seq", "invalid_event_ack"
    )
    return EventAck(event_id=event_id, server_event_seq=number)


def _word(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if isinstance(value, str) and value:
        return value
    raise RealtimeProtocolError(
        "invalid_session_resume", f"{name} must be a non-empty string", param=name
    )


def _sequence(value: Any, name: str, code: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RealtimeProtocolError(code, f"{name} must be an integer from 0", param=name)
    return value
