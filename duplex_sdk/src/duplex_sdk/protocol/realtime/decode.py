"""OpenAI's messages out of JSON: client commands for servers, server events for clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from .audio_input import decode_audio_append
from .commands import (
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    RealtimeCommand,
    TruncateItem,
    UpdateSession,
)
from .errors import RealtimeProtocolError
from .events import (
    REALTIME_EVENTS,
    InputTranscriptionDelta,
    InputTranscriptionFailed,
    RealtimeEvent,
)
from .fields import MAX_ID_CHARS, Fields

__all__ = [
    "COMMAND_READERS",
    "CommandReader",
    "decode_command",
    "decode_event",
    "event_from_payload",
    "parse_frame",
    "read_command",
    "read_event_id",
    "required_item_id",
]

CommandReader = Callable[[Fields, str | None], RealtimeCommand]


def decode_command(frame: str | bytes | Mapping[str, Any]) -> RealtimeCommand:
    """Read one of OpenAI's client messages.

    Raises:
        RealtimeProtocolError: with the client's ``event_id`` when it gave a valid one.
    """
    return read_command(parse_frame(frame), COMMAND_READERS)


def decode_event(payload: Mapping[str, Any]) -> RealtimeEvent:
    """Read one of OpenAI's server events, the two transcription extensions included.

    Unknown keys are ignored.

    Raises:
        RealtimeProtocolError: ``unknown_event`` for another type, ``bad_event`` for a message
            that lacks a field or holds it in the wrong type.
    """
    event_type = _event_class(payload.get("type"))
    return event_from_payload(event_type, payload)


def event_from_payload(
    event_type: type[RealtimeEvent], payload: Mapping[str, Any]
) -> RealtimeEvent:
    """Make an event of a class out of its JSON object; base64 becomes bytes.

    Raises:
        RealtimeProtocolError: ``bad_event``.
    """
    try:
        return msgspec.convert(payload, event_type)
    except (msgspec.ValidationError, RecursionError) as error:
        raise RealtimeProtocolError("bad_event", f"malformed {event_type.type}: {error}") from None


def parse_frame(frame: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON object of a frame.

    A mapping is copied through JSON, so what comes out shares nothing with the caller's and can
    be sent again.

    Raises:
        RealtimeProtocolError: ``invalid_json`` or, when it is no object, ``bad_event``.
    """
    text = _as_json(frame) if isinstance(frame, Mapping) else frame
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        raise RealtimeProtocolError("invalid_json", "the message is not valid JSON") from None
    if not isinstance(value, dict):
        raise RealtimeProtocolError("bad_event", "the message is not a JSON object")
    return value


def read_command(
    payload: Mapping[str, Any], readers: Mapping[str, CommandReader]
) -> RealtimeCommand:
    """Make a command of a JSON object, by the reader of its type.

    Raises:
        RealtimeProtocolError: it carries the client's ``event_id`` and the command's type.
    """
    event_id: str | None = None
    name = payload.get("type")
    try:
        event_id = read_event_id(payload)
        if not isinstance(name, str):
            raise RealtimeProtocolError("bad_event", "type must be a string", param="type")
        reader = readers.get(name)
        if reader is None:
            raise RealtimeProtocolError("unknown_event", "unknown message type", param="type")
        return reader(Fields(payload), event_id)
    except RealtimeProtocolError as error:
        error.event_id = event_id
        error.command = name if isinstance(name, str) and name in readers else None
        raise


def read_event_id(payload: Mapping[str, Any]) -> str | None:
    """The client's own id of a message, None when it gave none.

    Raises:
        RealtimeProtocolError: ``bad_event`` when it is not a string of 1 to 512 characters.
    """
    value = payload.get("event_id")
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID_CHARS:
        raise RealtimeProtocolError(
            "bad_event",
            f"event_id must be a string of 1 to {MAX_ID_CHARS} characters",
            param="event_id",
        )
    return value


def required_item_id(fields: Fields) -> str:
    """The ``item_id`` of a message.

    Raises:
        RealtimeProtocolError: ``missing_item_id``.
    """
    value = fields.get("item_id")
    if isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARS:
        return value
    raise RealtimeProtocolError(
        "missing_item_id", "item_id must be a non-empty string", param=fields.param("item_id")
    )


def _as_json(frame: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(frame)
    except (TypeError, ValueError, RecursionError):
        raise RealtimeProtocolError("bad_event", "the message holds what JSON cannot") from None


def _event_class(name: Any) -> type[RealtimeEvent]:
    found = _EVENT_CLASSES.get(name) if isinstance(name, str) else None
    if found is None:
        raise RealtimeProtocolError("unknown_event", "unknown event type", param="type")
    return found


def _update_session(fields: Fields, event_id: str | None) -> UpdateSession:
    session = fields.mapping("session")
    if session is None:
        raise fields.refuse("session", "must be an object")
    return UpdateSession(event_id=event_id, session=dict(session))


def _clear_input(fields: Fields, event_id: str | None) -> ClearInput:
    return ClearInput(event_id=event_id)


def _clear_output(fields: Fields, event_id: str | None) -> ClearOutputAudio:
    return ClearOutputAudio(event_id=event_id, response_id=fields.identifier("response_id"))


def _create_response(fields: Fields, event_id: str | None) -> CreateResponse:
    return CreateResponse(event_id=event_id, response=dict(fields.mapping("response") or {}))


def _cancel_response(fields: Fields, event_id: str | None) -> CancelResponse:
    return CancelResponse(event_id=event_id, response_id=fields.identifier("response_id"))


def _create_item(fields: Fields, event_id: str | None) -> CreateItem:
    item = fields.mapping("item")
    if item is None:
        raise fields.refuse("item", "must be an object")
    return CreateItem(
        event_id=event_id, item=dict(item), previous_item_id=fields.identifier("previous_item_id")
    )


def _delete_item(fields: Fields, event_id: str | None) -> DeleteItem:
    return DeleteItem(event_id=event_id, item_id=required_item_id(fields))


def _truncate_item(fields: Fields, event_id: str | None) -> TruncateItem:
    return TruncateItem(
        event_id=event_id,
        item_id=required_item_id(fields),
        content_index=fields.integer("content_index", at_least=0) or 0,
        audio_end_ms=int(fields.required_number("audio_end_ms", at_least=0)),
    )


def _commit(fields: Fields, event_id: str | None) -> Commit:
    return Commit(event_id=event_id)


COMMAND_READERS: Mapping[str, CommandReader] = {
    "session.update": _update_session,
    "input_audio_buffer.clear": _clear_input,
    "output_audio_buffer.clear": _clear_output,
    "response.create": _create_response,
    "response.cancel": _cancel_response,
    "conversation.item.create": _create_item,
    "conversation.item.delete": _delete_item,
    "conversation.item.truncate": _truncate_item,
    "input_audio_buffer.append": decode_audio_append,
    "input_audio_buffer.commit": _commit,
}
"""Wire type to the reader of OpenAI's ten commands."""

_KNOWN_EVENTS: tuple[type[RealtimeEvent], ...] = (
    *REALTIME_EVENTS,
    InputTranscriptionDelta,
    InputTranscriptionFailed,
)
_EVENT_CLASSES: Mapping[str, type[RealtimeEvent]] = {
    event_type.type: event_type for event_type in _KNOWN_EVENTS
}
