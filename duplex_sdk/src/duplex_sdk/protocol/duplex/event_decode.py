"""Server events of the duplex vocabulary out of JSON, for clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from duplex_sdk.protocol.realtime.decode import event_from_payload, parse_frame
from duplex_sdk.protocol.realtime.errors import RealtimeProtocolError
from duplex_sdk.protocol.realtime.fields import Fields

from .events import (
    DUPLEX_EVENTS,
    EXTENSION_EVENTS,
    DuplexErrorDetails,
    DuplexEvent,
    DuplexRawEvent,
    ErrorEvent,
)

__all__ = ["ServerFrame", "decode_event", "decode_server_frame"]

_RAW_PREFIX = "duplex."
_CLASSES: Mapping[str, type[DuplexEvent]] = {
    event_type.type: event_type
    for event_type in (*DUPLEX_EVENTS, *EXTENSION_EVENTS)
    if event_type not in (DuplexRawEvent, ErrorEvent)
}
_ERROR_KEYS = frozenset({"type", "code", "message", "event_id", "param", "retryable"})


class ServerFrame(msgspec.Struct, frozen=True):
    """An event as it came over a socket.

    Attributes:
        server_event_seq: its number in the session's journal; None when it has none.
    """

    event: DuplexEvent
    server_event_seq: int | None = None


def decode_event(payload: str | bytes | Mapping[str, Any]) -> DuplexEvent:
    """Read one server event: one of the 42, ``duplex.*`` notices, or an extension event.

    Unknown keys are ignored; ``epoch`` and ``session_id`` are taken from the envelope where it
    has them; base64 audio becomes bytes.

    Raises:
        RealtimeProtocolError: ``unknown_event`` for a type this version does not know (a client
            should go on), ``bad_event`` or ``invalid_json`` for a malformed message.
    """
    return _event(payload if isinstance(payload, Mapping) else parse_frame(payload))


def decode_server_frame(frame: str | bytes) -> ServerFrame:
    """Read one server event and the number the connection gave it.

    Raises:
        RealtimeProtocolError: as ``decode_event``.
    """
    payload = parse_frame(frame)
    return ServerFrame(_event(payload), Fields(payload).integer("server_event_seq"))


def _event(payload: Mapping[str, Any]) -> DuplexEvent:
    name = payload.get("type")
    if not isinstance(name, str):
        raise RealtimeProtocolError("bad_event", "type must be a string", param="type")
    if name == ErrorEvent.type:
        return _error(payload)
    event_class = _CLASSES.get(name)
    if event_class is not None:
        return event_from_payload(event_class, payload)
    if name.startswith(_RAW_PREFIX):
        return event_from_payload(
            DuplexRawEvent, {**payload, "name": name.removeprefix(_RAW_PREFIX)}
        )
    raise RealtimeProtocolError("unknown_event", "unknown event type", param="type")


def _error(payload: Mapping[str, Any]) -> ErrorEvent:
    error = payload.get("error")
    if not isinstance(error, Mapping):
        raise RealtimeProtocolError("bad_event", "error must be an object", param="error")
    known = {key: value for key, value in error.items() if key in _ERROR_KEYS}
    extra = {key: value for key, value in error.items() if key not in _ERROR_KEYS}
    try:
        said = {"code": "", **known}
        details = msgspec.convert({**said, "extra": extra}, DuplexErrorDetails)
        envelope = {
            key: payload[key] for key in ("event_id", "session_id", "epoch") if key in payload
        }
        plain = msgspec.convert({**envelope, "error": said}, ErrorEvent)
        # The field is declared with the Tier 1 class, and a conversion makes no subclass of it.
        return msgspec.structs.replace(plain, error=details)
    except msgspec.ValidationError as problem:
        raise RealtimeProtocolError("bad_event", f"malformed error: {problem}") from None
