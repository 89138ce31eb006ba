"""OpenAI's server events, pure: exactly the fields OpenAI defines.

An event is an immutable value. ``to_realtime()`` depends on nothing but its fields. Every event
also carries ``session_id`` and ``epoch`` for in-process readers; they are rendered only by the
classes that list them in ``WIRE``.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from .base64_text import encode_base64
from .items import ContentPart, Item, ResponseObject

__all__ = [
    "REALTIME_EVENTS",
    "AudioDelta",
    "AudioDone",
    "ContentPartAdded",
    "ContentPartDone",
    "ErrorDetails",
    "ErrorEvent",
    "FunctionCallArgumentsDelta",
    "FunctionCallArgumentsDone",
    "InputCleared",
    "InputCommitted",
    "InputTranscriptionCompleted",
    "InputTranscriptionDelta",
    "InputTranscriptionFailed",
    "ItemAdded",
    "ItemCreated",
    "ItemDeleted",
    "ItemDone",
    "ItemRetrieved",
    "ItemTruncated",
    "OutputAudioCleared",
    "OutputItemAdded",
    "OutputItemDone",
    "RateLimitsUpdated",
    "RealtimeEvent",
    "ResponseCreated",
    "ResponseDone",
    "SessionCreated",
    "SessionUpdated",
    "SpeechStarted",
    "SpeechStopped",
    "TextDelta",
    "TextDone",
    "TranscriptDelta",
    "TranscriptDone",
]


def render(value: Any) -> Any:
    """Make of a field what JSON carries: base64 of bytes, fresh objects and lists of the rest."""
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, bytes):
        return encode_base64(value)
    # Through JSON, so that a reader in this process sees the very types a socket delivers.
    return msgspec.json.decode(msgspec.json.encode(value))


class RealtimeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Anything a session tells its client.

    Attributes:
        type: the wire type, of the class.
        event_id: ``event_`` and 32 hex characters, fresh per event.
        session_id: the session that speaks; empty when no session exists.
        epoch: the session's epoch at emission; None outside a live session.
    """

    type: ClassVar[str] = ""
    WIRE: ClassVar[tuple[str, ...]] = ()
    """Fields rendered, in order."""
    OPTIONAL: ClassVar[frozenset[str]] = frozenset()
    """Of those, the ones left out when None."""

    event_id: str = ""
    session_id: str = ""
    epoch: int | None = None

    def to_realtime(self) -> dict[str, Any]:
        """The event as OpenAI Realtime JSON, a fresh dict."""
        payload: dict[str, Any] = {"type": self.type, "event_id": self.event_id}
        for name in self.WIRE:
            value = getattr(self, name)
            if value is None and name in self.OPTIONAL:
                continue
            payload[name] = render(value)
        return payload


class SessionCreated(RealtimeEvent, frozen=True, kw_only=True):
    """First event of a session."""

    type: ClassVar[str] = "session.created"
    WIRE: ClassVar[tuple[str, ...]] = ("session",)

    session: dict[str, Any]


class SessionUpdated(RealtimeEvent, frozen=True, kw_only=True):
    """An update was applied; holds the whole effective session."""

    type: ClassVar[str] = "session.updated"
    WIRE: ClassVar[tuple[str, ...]] = ("session",)

    session: dict[str, Any]


class SpeechStarted(RealtimeEvent, frozen=True, kw_only=True):
    """An utterance began; ``item_id`` is that of the item it will become."""

    type: ClassVar[str] = "input_audio_buffer.speech_started"
    WIRE: ClassVar[tuple[str, ...]] = ("audio_start_ms", "item_id")

    audio_start_ms: int
    item_id: str


class SpeechStopped(RealtimeEvent, frozen=True, kw_only=True):
    """The utterance of ``item_id`` ended."""

    type: ClassVar[str] = "input_audio_buffer.speech_stopped"
    WIRE: ClassVar[tuple[str, ...]] = ("audio_end_ms", "item_id")

    audio_end_ms: int
    item_id: str


class InputCleared(RealtimeEvent, frozen=True, kw_only=True):
    """Input that no commit had sealed was dropped."""

    type: ClassVar[str] = "input_audio_buffer.cleared"


class InputCommitted(RealtimeEvent, frozen=True, kw_only=True):
    """Input was sealed into the item ``item_id``."""

    type: ClassVar[str] = "input_audio_buffer.committed"
    WIRE: ClassVar[tuple[str, ...]] = ("previous_item_id", "item_id")

    previous_item_id: str | None = None
    item_id: str


class _ItemEvent(RealtimeEvent, frozen=True, kw_only=True):
    WIRE: ClassVar[tuple[str, ...]] = ("previous_item_id", "item")

    previous_item_id: str | None = None
    item: Item


class ItemAdded(_ItemEvent, frozen=True, kw_only=True):
    """An item entered the conversation."""

    type: ClassVar[str] = "conversation.item.added"


class ItemCreated(_ItemEvent, frozen=True, kw_only=True):
    """Beta spelling of ``ItemAdded``: read, never sent."""

    type: ClassVar[str] = "conversation.item.created"


class ItemDone(_ItemEvent, frozen=True, kw_only=True):
    """An item will not change any more, truncation apart."""

    type: ClassVar[str] = "conversation.item.done"


class ItemRetrieved(RealtimeEvent, frozen=True, kw_only=True):
    """Answer to ``conversation.item.retrieve``."""

    type: ClassVar[str] = "conversation.item.retrieved"
    WIRE: ClassVar[tuple[str, ...]] = ("item",)

    item: Item


class ItemDeleted(RealtimeEvent, frozen=True, kw_only=True):
    """An item left the conversation."""

    type: ClassVar[str] = "conversation.item.deleted"
    WIRE: ClassVar[tuple[str, ...]] = ("item_id",)

    item_id: str


class ItemTruncated(RealtimeEvent, frozen=True, kw_only=True):
    """An assistant item was cut to ``audio_end_ms``."""

    type: ClassVar[str] = "conversation.item.truncated"
    WIRE: ClassVar[tuple[str, ...]] = ("item_id", "content_index", "audio_end_ms")

    item_id: str
    content_index: int = 0
    audio_end_ms: int


class InputTranscriptionDelta(RealtimeEvent, frozen=True, kw_only=True):
    """A new piece of what the model hears."""

    type: ClassVar[str] = "conversation.item.input_audio_transcription.delta"
    WIRE: ClassVar[tuple[str, ...]] = ("item_id", "content_index", "delta")

    item_id: str
    content_index: int = 0
    delta: str


class InputTranscriptionCompleted(RealtimeEvent, frozen=True, kw_only=True):
    """What the model heard of a whole item."""

    type: ClassVar[str] = "conversation.item.input_audio_transcription.completed"
    WIRE: ClassVar[tuple[str, ...]] = ("item_id", "content_index", "transcript", "usage")

    item_id: str
    content_index: int = 0
    transcript: str
    usage: dict[str, Any]


class InputTranscriptionFailed(RealtimeEvent, frozen=True, kw_only=True):
    """The item has no transcript."""

    type: ClassVar[str] = "conversation.item.input_audio_transcription.failed"
    WIRE: ClassVar[tuple[str, ...]] = ("item_id", "content_index", "error")

    item_id: str
    content_index: int = 0
    error: dict[str, Any]


class ResponseCreated(RealtimeEvent, frozen=True, kw_only=True):
    """A response began."""

    type: ClassVar[str] = "response.created"
    WIRE: ClassVar[tuple[str, ...]] = ("response",)

    response: ResponseObject


class ResponseDone(RealtimeEvent, frozen=True, kw_only=True):
    """A response ended; nothing of it follows."""

    type: ClassVar[str] = "response.done"
    WIRE: ClassVar[tuple[str, ...]] = ("response",)

    response: ResponseObject


class OutputItemAdded(RealtimeEvent, frozen=True, kw_only=True):
    """A response opened its item."""

    type: ClassVar[str] = "response.output_item.added"
    WIRE: ClassVar[tuple[str, ...]] = ("response_id", "output_index", "item")

    response_id: str
    output_index: int = 0
    item: Item


class OutputItemDone(OutputItemAdded, frozen=True, kw_only=True):
    """A response closed its item."""

    type: ClassVar[str] = "response.output_item.done"


class _Addressed(RealtimeEvent, frozen=True, kw_only=True):
    WIRE: ClassVar[tuple[str, ...]] = ("response_id", "item_id", "output_index", "content_index")

    response_id: str
    item_id: str
    output_index: int = 0
    content_index: int = 0


class ContentPartAdded(_Addressed, frozen=True, kw_only=True):
    """A part was opened; its type for audio is ``audio`` here and ``output_audio`` in the item."""

    type: ClassVar[str] = "response.content_part.added"
    WIRE: ClassVar[tuple[str, ...]] = (*_Addressed.WIRE, "part")

    part: ContentPart


class ContentPartDone(ContentPartAdded, frozen=True, kw_only=True):
    """A part was closed."""

    type: ClassVar[str] = "response.content_part.done"


class AudioDelta(_Addressed, frozen=True, kw_only=True):
    """A piece of speech; ``delta`` holds encoded bytes, base64 is made when it is rendered."""

    type: ClassVar[str] = "response.output_audio.delta"
    WIRE: ClassVar[tuple[str, ...]] = (*_Addressed.WIRE, "delta")

    delta: bytes


class AudioDone(_Addressed, frozen=True, kw_only=True):
    """No more audio in this part."""

    type: ClassVar[str] = "response.output_audio.done"


class TranscriptDelta(_Addressed, frozen=True, kw_only=True):
    """A piece of the words that are spoken; may be empty."""

    type: ClassVar[str] = "response.output_audio_transcript.delta"
    WIRE: ClassVar[tuple[str, ...]] = (*_Addressed.WIRE, "delta")

    delta: str


class TranscriptDone(_Addressed, frozen=True, kw_only=True):
    """All the words that were generated for this part."""

    type: ClassVar[str] = "response.output_audio_transcript.done"
    WIRE: ClassVar[tuple[str, ...]] = (*_Addressed.WIRE, "transcript")

    transcript: str


class TextDelta(_Addressed, frozen=True, kw_only=True):
    """A piece of written answer."""

    type: ClassVar[str] = "response.output_text.delta"
    WIRE: ClassVar[tuple[str, ...]] = (*_Addressed.WIRE, "delta")

    delta: str


class TextDone(_Addressed, frozen=True, kw_only=True):
    """The whole written answer."""

    type: ClassVar[str] = "response.output_text.done"
    WIRE: ClassVar[tuple[str, ...]] = (*_Addressed.WIRE, "text")

    text: str


class FunctionCallArgumentsDelta(RealtimeEvent, frozen=True, kw_only=True):
    """A piece of a call's arguments, JSON text."""

    type: ClassVar[str] = "response.function_call_arguments.delta"
    WIRE: ClassVar[tuple[str, ...]] = (
        "response_id",
        "item_id",
        "output_index",
        "call_id",
        "delta",
    )

    response_id: str
    item_id: str
    output_index: int = 0
    call_id: str
    delta: str


class FunctionCallArgumentsDone(RealtimeEvent, frozen=True, kw_only=True):
    """A call is complete; ``arguments`` is JSON text."""

    type: ClassVar[str] = "response.function_call_arguments.done"
    WIRE: ClassVar[tuple[str, ...]] = (
        "response_id",
        "item_id",
        "output_index",
        "call_id",
        "name",
        "arguments",
    )

    response_id: str
    item_id: str
    output_index: int = 0
    call_id: str
    name: str
    arguments: str


class RateLimitsUpdated(RealtimeEvent, frozen=True, kw_only=True):
    """Follows every ``response.done``; we state no limits."""

    type: ClassVar[str] = "rate_limits.updated"
    WIRE: ClassVar[tuple[str, ...]] = ("rate_limits",)

    rate_limits: tuple[dict[str, Any], ...] = ()


class OutputAudioCleared(RealtimeEvent, frozen=True, kw_only=True):
    """Output audio that was not sent yet was discarded."""

    type: ClassVar[str] = "output_audio_buffer.cleared"
    WIRE: ClassVar[tuple[str, ...]] = ("response_id",)

    response_id: str | None = None


class ErrorDetails(msgspec.Struct, frozen=True, kw_only=True):
    """OpenAI's error object; ``event_id`` and ``param`` are left out when unknown."""

    type: str
    code: str
    message: str
    event_id: str | None = None
    param: str | None = None

    def to_realtime(self) -> dict[str, Any]:
        """The object as JSON can carry it."""
        rendered: dict[str, Any] = {
            "type": self.type,
            "code": self.code,
            "message": self.message,
        }
        if self.event_id is not None:
            rendered["event_id"] = self.event_id
        if self.param is not None:
            rendered["param"] = self.param
        return rendered


class ErrorEvent(RealtimeEvent, frozen=True, kw_only=True):
    """A request failed, or the session did."""

    type: ClassVar[str] = "error"

    error: ErrorDetails

    def to_realtime(self) -> dict[str, Any]:
        """The event as OpenAI Realtime JSON."""
        return {"type": self.type, "event_id": self.event_id, "error": self.error.to_realtime()}


REALTIME_EVENTS: tuple[type[RealtimeEvent], ...] = (
    SessionCreated,
    SessionUpdated,
    SpeechStarted,
    SpeechStopped,
    InputCleared,
    InputCommitted,
    ItemAdded,
    ItemCreated,
    ItemDone,
    ItemRetrieved,
    ItemDeleted,
    ItemTruncated,
    InputTranscriptionCompleted,
    ResponseCreated,
    ResponseDone,
    OutputItemAdded,
    OutputItemDone,
    ContentPartAdded,
    ContentPartDone,
    AudioDelta,
    AudioDone,
    TranscriptDelta,
    TranscriptDone,
    TextDelta,
    TextDone,
    FunctionCallArgumentsDelta,
    FunctionCallArgumentsDone,
    RateLimitsUpdated,
    OutputAudioCleared,
    ErrorEvent,
)
"""The 30 events of a conversation; two more exist (transcription delta and failed)."""
