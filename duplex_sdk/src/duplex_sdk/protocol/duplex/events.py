"""The whole vocabulary of a session: 42 events, of which 22 are OpenAI's own, 8 extend
OpenAI's and 12 are ours, and two extension events that are not counted.

A Tier 2 class derives from its Tier 1 twin and declares only what it adds.
"""  # noqa: D205

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from duplex_sdk.protocol.realtime import events as tier1
from duplex_sdk.protocol.realtime.events import (
    AudioDone,
    ContentPartAdded,
    ContentPartDone,
    FunctionCallArgumentsDelta,
    FunctionCallArgumentsDone,
    InputCleared,
    InputTranscriptionCompleted,
    InputTranscriptionDelta,
    InputTranscriptionFailed,
    ItemAdded,
    ItemCreated,
    ItemDone,
    ItemRetrieved,
    OutputAudioCleared,
    OutputItemAdded,
    OutputItemDone,
    RateLimitsUpdated,
    RealtimeEvent,
    SessionUpdated,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TextDone,
    TranscriptDelta,
    TranscriptDone,
)

__all__ = [
    "DUPLEX_EVENTS",
    "EXTENSION_EVENTS",
    "TIER_1_EVENTS",
    "TIER_2_EVENTS",
    "TIER_3_EVENTS",
    "AudioDelta",
    "AudioDone",
    "ContentPartAdded",
    "ContentPartDone",
    "DuplexErrorDetails",
    "DuplexEvent",
    "DuplexRawEvent",
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
    "Listen",
    "OutputAudioCleared",
    "OutputItemAdded",
    "OutputItemDone",
    "OverlapDecision",
    "PlaybackAcknowledged",
    "RateLimitsUpdated",
    "ResponseCreated",
    "ResponseDone",
    "SessionClosed",
    "SessionCreated",
    "SessionExpired",
    "SessionHeartbeatAck",
    "SessionReplaced",
    "SessionResumed",
    "SessionResyncRequired",
    "SessionUpdated",
    "Speak",
    "SpeechStarted",
    "SpeechStopped",
    "TextDelta",
    "TextDone",
    "TranscriptDelta",
    "TranscriptDone",
    "TurnEvent",
]

DuplexEvent = RealtimeEvent
"""What a session tells its client; an event has no engine-internal half."""


# Tier 2


class SessionCreated(tier1.SessionCreated, frozen=True, kw_only=True):
    """Adds what a client needs to come back; both None without resume support."""

    WIRE: ClassVar[tuple[str, ...]] = (
        *tier1.SessionCreated.WIRE,
        "attachment_generation",
        "resume_token",
    )
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"attachment_generation", "resume_token"})

    attachment_generation: int | None = None
    resume_token: str | None = None


class InputCommitted(tier1.InputCommitted, frozen=True, kw_only=True):
    """Adds the details of the commit."""

    WIRE: ClassVar[tuple[str, ...]] = (*tier1.InputCommitted.WIRE, "event")
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"event"})

    event: dict[str, Any] | None = None


class ItemDeleted(tier1.ItemDeleted, frozen=True, kw_only=True):
    """Adds whether model history changed too."""

    WIRE: ClassVar[tuple[str, ...]] = (*tier1.ItemDeleted.WIRE, "event")
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"event"})

    event: dict[str, Any] | None = None


class ItemTruncated(tier1.ItemTruncated, frozen=True, kw_only=True):
    """Adds whether model history changed too."""

    WIRE: ClassVar[tuple[str, ...]] = (*tier1.ItemTruncated.WIRE, "event")
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"event"})

    event: dict[str, Any] | None = None


class ResponseCreated(tier1.ResponseCreated, frozen=True, kw_only=True):
    """Adds the id at the top."""

    WIRE: ClassVar[tuple[str, ...]] = ("response_id", *tier1.ResponseCreated.WIRE)

    response_id: str


class ResponseDone(tier1.ResponseDone, frozen=True, kw_only=True):
    """Adds the id at the top."""

    WIRE: ClassVar[tuple[str, ...]] = ("response_id", *tier1.ResponseDone.WIRE)

    response_id: str


class AudioDelta(tier1.AudioDelta, frozen=True, kw_only=True):
    """Adds format, rate and position.

    Attributes:
        duration_ms: length of this piece; not rendered, it is how the output path counts.
    """

    WIRE: ClassVar[tuple[str, ...]] = (
        *tier1.AudioDelta.WIRE,
        "format",
        "sample_rate_hz",
        "metadata",
    )
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"sample_rate_hz", "metadata"})

    format: str
    sample_rate_hz: int | None = None
    metadata: dict[str, Any] | None = None
    duration_ms: float = 0.0


class DuplexErrorDetails(tier1.ErrorDetails, frozen=True, kw_only=True):
    """Adds ``retryable`` and other keys of ours."""

    retryable: bool | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    def to_realtime(self) -> dict[str, Any]:
        """The object as JSON can carry it."""
        rendered = tier1.ErrorDetails.to_realtime(self)
        if self.retryable is not None:
            rendered["retryable"] = self.retryable
        return rendered | self.extra


class ErrorEvent(tier1.ErrorEvent, frozen=True, kw_only=True):
    """Adds our codes.

    Attributes:
        command: wire type of the command this refuses; None when the fault arose by itself.
            Never rendered, profiles go by it.
    """

    error: tier1.ErrorDetails
    command: str | None = None


# Tier 3


class Speak(RealtimeEvent, frozen=True, kw_only=True):
    """A model that takes its own turns decided to speak; before the first audio delta."""

    type: ClassVar[str] = "response.speak"
    WIRE: ClassVar[tuple[str, ...]] = (
        "response_id",
        "item_id",
        "output_index",
        "content_index",
        "metadata",
    )

    response_id: str
    item_id: str
    output_index: int = 0
    content_index: int = 0
    metadata: dict[str, Any]


class Listen(RealtimeEvent, frozen=True, kw_only=True):
    """The model keeps listening; with ``response_id`` a response made in advance stays silent."""

    type: ClassVar[str] = "response.listen"
    WIRE: ClassVar[tuple[str, ...]] = ("session_id", "epoch", "response", "response_id")
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"response_id"})

    response: dict[str, Any]
    response_id: str | None = None


class OverlapDecision(RealtimeEvent, frozen=True, kw_only=True):
    """What becomes of input that came while the assistant speaks."""

    type: ClassVar[str] = "overlap.decision"
    WIRE: ClassVar[tuple[str, ...]] = (
        "session_id",
        "epoch",
        "policy",
        "action",
        "reason",
        "metadata",
    )

    policy: str
    action: str
    reason: str
    metadata: dict[str, Any]


class PlaybackAcknowledged(RealtimeEvent, frozen=True, kw_only=True):
    """Answer to ``playback.ack``; the ledger as it now stands."""

    type: ClassVar[str] = "playback.acknowledged"
    WIRE: ClassVar[tuple[str, ...]] = ("event",)

    event: dict[str, Any]


class TurnEvent(RealtimeEvent, frozen=True, kw_only=True):
    """Answer to ``turn.signal``."""

    type: ClassVar[str] = "turn.event"
    WIRE: ClassVar[tuple[str, ...]] = ("session_id", "epoch", "event", "turn_state")

    event: str
    turn_state: str


class SessionHeartbeatAck(RealtimeEvent, frozen=True, kw_only=True):
    """Answer to ``session.heartbeat``."""

    type: ClassVar[str] = "session.heartbeat_ack"
    WIRE: ClassVar[tuple[str, ...]] = ("session_id",)


class SessionResumed(SessionCreated, frozen=True, kw_only=True):
    """This socket took the session over; replay follows, up to the newest event, then live ones.

    None of the events numbered up to ``newest_server_event_seq`` was sent to this socket before.
    """

    type: ClassVar[str] = "session.resumed"
    WIRE: ClassVar[tuple[str, ...]] = (
        "session_id",
        "session",
        "attachment_generation",
        "resume_token",
        "newest_server_event_seq",
    )
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"newest_server_event_seq"})

    newest_server_event_seq: int | None = None


class SessionReplaced(RealtimeEvent, frozen=True, kw_only=True):
    """Another socket took the session over; generation is that of the replaced one."""

    type: ClassVar[str] = "session.replaced"
    WIRE: ClassVar[tuple[str, ...]] = ("session_id", "attachment_generation")

    attachment_generation: int


class SessionResyncRequired(RealtimeEvent, frozen=True, kw_only=True):
    """Events were lost to replay: ``journal_gap`` or ``journal_overflow``."""

    type: ClassVar[str] = "session.resync_required"
    WIRE: ClassVar[tuple[str, ...]] = ("session_id", "reason")

    reason: str


class SessionClosed(RealtimeEvent, frozen=True, kw_only=True):
    """The session is over; the last event of its stream."""

    type: ClassVar[str] = "session.closed"
    WIRE: ClassVar[tuple[str, ...]] = ("session_id", "epoch", "reason", "event")

    reason: str
    event: dict[str, Any] = msgspec.field(default_factory=dict)


class SessionExpired(SessionClosed, frozen=True, kw_only=True):
    """The session's time ran out; the last event of its stream."""

    type: ClassVar[str] = "session.expired"
    WIRE: ClassVar[tuple[str, ...]] = ("session_id", "epoch", "reason")


class DuplexRawEvent(RealtimeEvent, frozen=True, kw_only=True):
    """A notice of ours without a class: its wire type is ``duplex.`` and ``name``."""

    type: ClassVar[str] = "duplex"
    WIRE: ClassVar[tuple[str, ...]] = ("event",)

    name: str
    event: dict[str, Any]

    def to_realtime(self) -> dict[str, Any]:
        """The event as Realtime JSON."""
        payload = RealtimeEvent.to_realtime(self)
        payload["type"] = f"duplex.{self.name}"
        return payload


TIER_1_EVENTS: tuple[type[RealtimeEvent], ...] = (
    SessionUpdated,
    SpeechStarted,
    SpeechStopped,
    InputCleared,
    ItemAdded,
    ItemCreated,
    ItemDone,
    ItemRetrieved,
    InputTranscriptionCompleted,
    OutputItemAdded,
    OutputItemDone,
    ContentPartAdded,
    ContentPartDone,
    AudioDone,
    TranscriptDelta,
    TranscriptDone,
    TextDelta,
    TextDone,
    FunctionCallArgumentsDelta,
    FunctionCallArgumentsDone,
    RateLimitsUpdated,
    OutputAudioCleared,
)
TIER_2_EVENTS: tuple[type[RealtimeEvent], ...] = (
    SessionCreated,
    InputCommitted,
    ItemDeleted,
    ItemTruncated,
    ResponseCreated,
    AudioDelta,
    ResponseDone,
    ErrorEvent,
)
TIER_3_EVENTS: tuple[type[RealtimeEvent], ...] = (
    Speak,
    Listen,
    OverlapDecision,
    PlaybackAcknowledged,
    TurnEvent,
    SessionHeartbeatAck,
    SessionResumed,
    SessionReplaced,
    SessionResyncRequired,
    SessionClosed,
    SessionExpired,
    DuplexRawEvent,
)
DUPLEX_EVENTS = TIER_1_EVENTS + TIER_2_EVENTS + TIER_3_EVENTS
EXTENSION_EVENTS: tuple[type[RealtimeEvent], ...] = (
    InputTranscriptionDelta,
    InputTranscriptionFailed,
)
