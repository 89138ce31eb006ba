"""Commands into JSON objects: as a client sends them, and as a session's mailbox names them."""

from __future__ import annotations

from typing import Any

import msgspec

from duplex_sdk.protocol.realtime.base64_text import encode_base64

from .commands import (
    AppendAudio,
    CreateItem,
    DeleteItem,
    RealtimeCommand,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    UpdateSession,
)
from .control_frames import EventAck, ResumeRequest

__all__ = ["TURN_SIGNAL", "channel", "encode_command", "mailbox_payload"]

TURN_SIGNAL = SignalTurn.type

_WISHES = ("force_barge_in", "force_listen")
_SIGNALS = (UpdateSession, CreateItem, DeleteItem, TruncateItem, RetrieveItem)


def encode_command(command: RealtimeCommand | ResumeRequest | EventAck) -> dict[str, Any]:
    """The JSON object a client sends for a command; fields that say nothing are left out."""
    return {"type": command.type, **_stated_fields(command)}


def channel(command: RealtimeCommand) -> str:
    """The mailbox message type a session's worker sees for a command."""
    return TURN_SIGNAL if isinstance(command, _SIGNALS) else command.type


def mailbox_payload(command: RealtimeCommand) -> dict[str, Any]:
    """The mailbox form of a command; the client's id travels as ``realtime_event_id``."""
    fields = _stated_fields(command)
    event_id = fields.pop("event_id", None)
    message: dict[str, Any] = {"type": channel(command)}
    if isinstance(command, UpdateSession):
        message |= {"event": command.type, "payload": fields["session"]}
    elif isinstance(command, _SIGNALS):
        message |= {"event": command.type, "payload": fields}
    else:
        message |= fields
    if event_id is not None:
        message["realtime_event_id"] = event_id
    return message


def _stated_fields(command: RealtimeCommand | ResumeRequest | EventAck) -> dict[str, Any]:
    fields = {
        name: value
        for name, value in msgspec.structs.asdict(command).items()
        if value is not None and name != "hints"
    }
    if isinstance(command, AppendAudio):
        _encode_append(command, fields)
    return fields


def _encode_append(command: AppendAudio, fields: dict[str, Any]) -> None:
    fields.pop("audio")
    fields.pop("video_frames")
    if command.audio:
        fields["audio"] = encode_base64(command.audio)
    if command.video_frames:
        fields["video_frames"] = [encode_base64(frame) for frame in command.video_frames]
    hints = msgspec.structs.asdict(command.hints)
    said = {name: hint for name, hint in hints.items() if hint is not None}
    fields |= {name: hint for name, hint in said.items() if hint or name not in _WISHES}
