"""OpenAI's client commands, pure: the wire type and the fields, nothing of ours."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

__all__ = [
    "REALTIME_COMMANDS",
    "AppendAudio",
    "CancelResponse",
    "ClearInput",
    "ClearOutputAudio",
    "Commit",
    "CreateItem",
    "CreateResponse",
    "DeleteItem",
    "RealtimeCommand",
    "TruncateItem",
    "UpdateSession",
]


class RealtimeCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Anything a client asks of a session.

    Attributes:
        type: the wire type, of the class.
        event_id: the client's own id, copied to the error that answers it; None when it gave none.
    """

    type: ClassVar[str] = ""

    event_id: str | None = None


class UpdateSession(RealtimeCommand, frozen=True, kw_only=True):
    """Change the session: a patch, nested objects merge."""

    type: ClassVar[str] = "session.update"

    session: dict[str, Any]


class ClearInput(RealtimeCommand, frozen=True, kw_only=True):
    """Drop input that no commit has sealed."""

    type: ClassVar[str] = "input_audio_buffer.clear"


class ClearOutputAudio(RealtimeCommand, frozen=True, kw_only=True):
    """Discard output audio that was not sent, and stop its response."""

    type: ClassVar[str] = "output_audio_buffer.clear"

    response_id: str | None = None


class CreateResponse(RealtimeCommand, frozen=True, kw_only=True):
    """Answer what was committed; ``response`` holds options for this one response."""

    type: ClassVar[str] = "response.create"

    response: dict[str, Any] = msgspec.field(default_factory=dict)


class CancelResponse(RealtimeCommand, frozen=True, kw_only=True):
    """End the active response at once."""

    type: ClassVar[str] = "response.cancel"

    response_id: str | None = None


class CreateItem(RealtimeCommand, frozen=True, kw_only=True):
    """Add an item to the conversation, at the end unless ``previous_item_id`` says otherwise."""

    type: ClassVar[str] = "conversation.item.create"

    item: dict[str, Any]
    previous_item_id: str | None = None


class DeleteItem(RealtimeCommand, frozen=True, kw_only=True):
    """Remove an item."""

    type: ClassVar[str] = "conversation.item.delete"

    item_id: str


class TruncateItem(RealtimeCommand, frozen=True, kw_only=True):
    """Cut an assistant item to what was played, in ms of its audio."""

    type: ClassVar[str] = "conversation.item.truncate"

    item_id: str
    content_index: int = 0
    audio_end_ms: int


class AppendAudio(RealtimeCommand, frozen=True, kw_only=True):
    """Hand over input audio: bytes of the negotiated format, already out of base64."""

    type: ClassVar[str] = "input_audio_buffer.append"

    audio: bytes = b""


class Commit(RealtimeCommand, frozen=True, kw_only=True):
    """Seal the input so far into one user item."""

    type: ClassVar[str] = "input_audio_buffer.commit"


REALTIME_COMMANDS: tuple[type[RealtimeCommand], ...] = (
    UpdateSession,
    ClearInput,
    ClearOutputAudio,
    CreateResponse,
    CancelResponse,
    CreateItem,
    DeleteItem,
    TruncateItem,
    AppendAudio,
    Commit,
)
"""OpenAI's ten commands."""
