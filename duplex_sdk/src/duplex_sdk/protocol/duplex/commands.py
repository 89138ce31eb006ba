"""The 17 commands of a session: 8 of OpenAI's own, 2 that extend OpenAI's, 7 of ours.

Beside them stands ``RetrieveItem``, OpenAI's frame that travels as a turn signal.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from duplex_sdk.protocol.realtime import commands as tier1
from duplex_sdk.protocol.realtime.commands import (
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    CreateItem,
    CreateResponse,
    DeleteItem,
    RealtimeCommand,
    TruncateItem,
    UpdateSession,
)

__all__ = [
    "DUPLEX_COMMANDS",
    "TIER_1_COMMANDS",
    "TIER_2_COMMANDS",
    "TIER_3_COMMANDS",
    "AckPlayback",
    "AppendAudio",
    "AppendHints",
    "AppendText",
    "BargeIn",
    "CancelInput",
    "CancelResponse",
    "ClearInput",
    "ClearOutputAudio",
    "CloseSession",
    "Commit",
    "CreateItem",
    "CreateResponse",
    "DeleteItem",
    "DuplexCommand",
    "Heartbeat",
    "RealtimeCommand",
    "RetrieveItem",
    "SignalTurn",
    "TruncateItem",
    "UpdateSession",
]


DuplexCommand = RealtimeCommand
"""What a client asks of a session; its mailbox form is made by ``mailbox_payload``."""


# Tier 2


class AppendHints(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says about its own audio; None when it said nothing of the kind."""

    audio_start_ms: int | None = None
    speech: bool | None = None
    speech_probability: float | None = None
    vad: dict[str, Any] | None = None
    overlap_action: str | None = None
    force_barge_in: bool = False
    force_listen: bool = False
    transcript: str | None = None


NO_HINTS = AppendHints()


class AppendAudio(tier1.AppendAudio, frozen=True, kw_only=True):
    """Adds format, rate, speech verdict, video frames and hints.

    ``format`` and ``sample_rate_hz`` are None where the session's negotiated input holds.
    """

    format: str | None = None
    sample_rate_hz: int | None = None
    is_speech: bool | None = None
    video_frames: tuple[bytes, ...] = ()
    max_slice_nums: int | None = None
    duration_ms: int | None = None
    audio_end_ms: int | None = None
    hints: AppendHints = NO_HINTS


class Commit(tier1.Commit, frozen=True, kw_only=True):
    """Adds whether to answer, whether it was speech at all, and a flush that seals nothing."""

    final: bool = True
    response_create: bool | None = None
    is_speech: bool | None = None


# Tier 3


class AppendText(RealtimeCommand, frozen=True, kw_only=True):
    """Add text to the open turn."""

    type: ClassVar[str] = "input.text.append"

    text: str


class CancelInput(RealtimeCommand, frozen=True, kw_only=True):
    """Drop all pending input and stop the active response."""

    type: ClassVar[str] = "input.cancel"


class BargeIn(RealtimeCommand, frozen=True, kw_only=True):
    """The user interrupts: as ``CancelInput``, where the model can be interrupted."""

    type: ClassVar[str] = "barge_in"


class SignalTurn(RealtimeCommand, frozen=True, kw_only=True):
    """Tell the session where the turn stands."""

    type: ClassVar[str] = "turn.signal"

    event: str
    payload: dict[str, Any] = msgspec.field(default_factory=dict)


class AckPlayback(RealtimeCommand, frozen=True, kw_only=True):
    """How much of a response was played, in ms of its audio."""

    type: ClassVar[str] = "playback.ack"

    played_ms: float
    committed_ms: float | None = None
    response_id: str | None = None
    item_id: str | None = None
    truncate: bool = False


class Heartbeat(RealtimeCommand, frozen=True, kw_only=True):
    """The client is alive: refreshes the lease."""

    type: ClassVar[str] = "session.heartbeat"


class CloseSession(RealtimeCommand, frozen=True, kw_only=True):
    """End the session after what was asked before."""

    type: ClassVar[str] = "session.close"

    reason: str = "client_close"


class RetrieveItem(RealtimeCommand, frozen=True, kw_only=True):
    """Ask for an item as the session now holds it. Not one of the 17: rides on ``turn.signal``."""

    type: ClassVar[str] = "conversation.item.retrieve"

    item_id: str


TIER_1_COMMANDS: tuple[type[RealtimeCommand], ...] = (
    UpdateSession,
    ClearInput,
    ClearOutputAudio,
    CreateResponse,
    CancelResponse,
    CreateItem,
    DeleteItem,
    TruncateItem,
)
TIER_2_COMMANDS: tuple[type[RealtimeCommand], ...] = (AppendAudio, Commit)
TIER_3_COMMANDS: tuple[type[RealtimeCommand], ...] = (
    AppendText,
    CancelInput,
    BargeIn,
    SignalTurn,
    AckPlayback,
    Heartbeat,
    CloseSession,
)
DUPLEX_COMMANDS = TIER_1_COMMANDS + TIER_2_COMMANDS + TIER_3_COMMANDS
