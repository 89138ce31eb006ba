"""Messages of the duplex vocabulary out of JSON: commands for servers, events for clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from duplex_sdk.protocol.realtime.base64_text import decode_base64
from duplex_sdk.protocol.realtime.decode import (
    COMMAND_READERS,
    CommandReader,
    parse_frame,
    read_event_id,
    required_item_id,
)
from duplex_sdk.protocol.realtime.errors import RealtimeProtocolError
from duplex_sdk.protocol.realtime.fields import MAX_ID_CHARS, Fields

from .audio_input import decode_audio_append
from .commands import (
    AckPlayback,
    AppendAudio,
    AppendText,
    BargeIn,
    CancelInput,
    CloseSession,
    Commit,
    Heartbeat,
    RealtimeCommand,
    RetrieveItem,
    SignalTurn,
)
from .control_frames import EventAck, ResumeRequest, read_event_ack, read_resume_request

__all__ = ["COMMAND_ALIASES", "MAX_CLIENT_FRAME_BYTES", "ClientFrame", "decode_command"]

MAX_CLIENT_FRAME_BYTES = 15 * 1024 * 1024
MAX_ECHOED_CHARS = 64 * 1024
"""Longest free text of a command that its acknowledgement repeats."""

ClientFrame = RealtimeCommand | ResumeRequest | EventAck
FrameReader = Callable[[Fields, str | None], ClientFrame]

COMMAND_ALIASES: Mapping[str, str] = {
    "input.commit": "input_audio_buffer.commit",
    "input_text.append": "input.text.append",
    "push_text": "input.text.append",
    "signal_turn": "turn.signal",
    "audio.playback_ack": "playback.ack",
    "close_session": "session.close",
    "close": "session.close",
}
"""Other names of a command, to the name of its class."""


class _PlainAppend(
    msgspec.Struct, tag="input_audio_buffer.append", forbid_unknown_fields=True, frozen=True
):
    audio: str
    event_id: str | None = None


# Nearly every frame is an append of nothing but audio: one typed pass, no dict. Anything else
# fails it within the first key or two and takes the general way.
_PLAIN_APPEND = msgspec.json.Decoder(_PlainAppend)


def decode_command(
    frame: str | bytes | Mapping[str, Any],
    *,
    first: bool = False,
    max_bytes: int = MAX_CLIENT_FRAME_BYTES,
) -> ClientFrame:
    """Read one client frame.

    Args:
        frame: JSON text, or its object; a mapping is copied.
        first: this is the first frame of a socket: a ``session.update`` may then be the session
            object itself.
        max_bytes: longest text, in bytes of UTF-8.

    Returns:
        One of the 17 commands, ``RetrieveItem``, or a frame that the connection answers itself.

    Raises:
        RealtimeProtocolError: whatever is wrong with the frame. It carries the client's
            ``event_id`` when there is a valid one, and the type of the command it refuses.
    """
    if not isinstance(frame, Mapping):
        _check_size(frame, max_bytes)
        append = _plain_append(frame)
        if append is not None:
            return append
    payload = parse_frame(frame)
    event_id: str | None = None
    reader: FrameReader | None = None
    name = payload.get("type")
    try:
        event_id = read_event_id(payload)
        reader = _reader(name)
        if first and name == "session.update" and payload.get("session") is None:
            payload = {"session": _without_envelope(payload)}
        return reader(Fields(payload), event_id)
    except RealtimeProtocolError as error:
        error.event_id = event_id
        if reader is not None and isinstance(name, str):
            error.command = COMMAND_ALIASES.get(name, name)
        raise


def _check_size(frame: str | bytes, max_bytes: int) -> None:
    # The length in characters settles nearly every frame without encoding it.
    if len(frame) * (1 if isinstance(frame, bytes) else 4) <= max_bytes:
        return
    size = len(frame) if isinstance(frame, bytes) else len(frame.encode(errors="replace"))
    if size > max_bytes:
        raise RealtimeProtocolError("event_too_large", f"a frame holds at most {max_bytes} bytes")


def _plain_append(frame: str | bytes) -> AppendAudio | None:
    try:
        append = _PLAIN_APPEND.decode(frame)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError):
        return None
    event_id = append.event_id
    if not append.audio or (event_id is not None and not 0 < len(event_id) <= MAX_ID_CHARS):
        return None
    try:
        audio = decode_base64(append.audio, code="bad_audio", param="audio")
    except RealtimeProtocolError as error:
        error.event_id = event_id
        error.command = AppendAudio.type
        raise
    return AppendAudio(event_id=event_id, audio=audio)


def _reader(name: Any) -> FrameReader:
    if not isinstance(name, str):
        raise RealtimeProtocolError("bad_event", "type must be a string", param="type")
    reader = _READERS.get(name)
    if reader is None:
        raise RealtimeProtocolError("unknown_event", "unknown message type", param="type")
    return reader


def _without_envelope(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in payload.items() if key not in ("type", "event_id", "session")
    }


def _commit(fields: Fields, event_id: str | None) -> Commit:
    name = "create_response" if fields.get("response_create") is None else "response_create"
    final = fields.flag("final")
    return Commit(
        event_id=event_id,
        final=True if final is None else final,
        response_create=fields.flag(name),
        is_speech=fields.flag("is_speech"),
    )


def _input_commit(fields: Fields, event_id: str | None) -> Commit:
    commit = _commit(fields, event_id)
    if commit.response_create is None:
        return msgspec.structs.replace(commit, response_create=True)
    return commit


def _append_text(fields: Fields, event_id: str | None) -> AppendText:
    text = fields.text("text")
    if text is None:
        raise fields.refuse("text", "must be a string")
    return AppendText(event_id=event_id, text=text)


def _cancel_input(fields: Fields, event_id: str | None) -> CancelInput:
    return CancelInput(event_id=event_id)


def _barge_in(fields: Fields, event_id: str | None) -> BargeIn:
    return BargeIn(event_id=event_id)


def _ack_playback(fields: Fields, event_id: str | None) -> AckPlayback:
    committed = fields.number("committed_ms")
    return AckPlayback(
        event_id=event_id,
        played_ms=float(fields.required_number("played_ms")),
        committed_ms=None if committed is None else float(committed),
        response_id=fields.identifier("response_id"),
        item_id=fields.identifier("item_id"),
        truncate=fields.flag("truncate") or False,
    )


def _heartbeat(fields: Fields, event_id: str | None) -> Heartbeat:
    return Heartbeat(event_id=event_id)


def _close_session(fields: Fields, event_id: str | None) -> CloseSession:
    return CloseSession(event_id=event_id, reason=fields.text("reason") or "client_close")


def _retrieve_item(fields: Fields, event_id: str | None) -> RetrieveItem:
    return RetrieveItem(event_id=event_id, item_id=required_item_id(fields))


def _signal_turn(fields: Fields, event_id: str | None) -> RealtimeCommand:
    event = fields.required_text("event")
    payload = fields.mapping("payload") or {}
    if event in ("close", "timeout"):
        raise fields.refuse("event", f"{event} is refused: send session.close")
    if event == "session.update":
        return COMMAND_READERS[event](Fields({"session": payload}), event_id)
    disguised = _DISGUISED.get(event)
    if disguised is not None:
        return disguised(Fields(payload, path="payload"), event_id)
    if len(event) > MAX_ECHOED_CHARS:
        raise RealtimeProtocolError("event_too_large", "event is too long", param="event")
    return SignalTurn(event_id=event_id, event=event, payload=dict(payload))


_DISGUISED: Mapping[str, CommandReader] = {
    "input.cancel": _cancel_input,
    "barge_in": _barge_in,
    "response.cancel": COMMAND_READERS["response.cancel"],
    "conversation.item.create": COMMAND_READERS["conversation.item.create"],
    "conversation.item.delete": COMMAND_READERS["conversation.item.delete"],
    "conversation.item.truncate": COMMAND_READERS["conversation.item.truncate"],
    "conversation.item.retrieve": _retrieve_item,
}

_READERS: Mapping[str, FrameReader] = {
    **COMMAND_READERS,
    "input_audio_buffer.append": decode_audio_append,
    "input_audio_buffer.commit": _commit,
    "input.commit": _input_commit,
    "input.text.append": _append_text,
    "input_text.append": _append_text,
    "push_text": _append_text,
    "input.cancel": _cancel_input,
    "barge_in": _barge_in,
    "turn.signal": _signal_turn,
    "signal_turn": _signal_turn,
    "playback.ack": _ack_playback,
    "audio.playback_ack": _ack_playback,
    "session.heartbeat": _heartbeat,
    "session.close": _close_session,
    "close_session": _close_session,
    "close": _close_session,
    "conversation.item.retrieve": _retrieve_item,
    "session.resume": read_resume_request,
    "session.event_ack": read_event_ack,
}
