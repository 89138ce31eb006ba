"""Everything a session may ask for: what ``DuplexEngineSession.handle`` returns.

Names are in the imperative. The shell carries effects out in order. An effect with an ``op`` takes
time: its outcome comes back as the input named in its docstring. Nothing in here decides anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from duplex_sdk.plugin import (
        AppendRequest,
        DuplexStageRequestContext,
        DuplexStageSubmission,
        TurnDetection,
    )
    from duplex_sdk.protocol.duplex import DuplexEvent

    from .inputs import Fault

__all__ = [
    "AbortRequests",
    "AnswerControl",
    "ConfigureInput",
    "DecodeAudio",
    "DropQueuedAudio",
    "Effect",
    "Emit",
    "Ended",
    "MarkClosing",
    "PlanAppend",
    "RegisterRequest",
    "ReleaseRequests",
    "ReleaseStages",
    "Report",
    "SubmitUnit",
    "TellLag",
    "WakeAt",
]


class Emit(msgspec.Struct, frozen=True):
    """Put this event into the session's output buffer; refused: ``OutputRefused``, at once."""

    event: DuplexEvent


class DecodeAudio(msgspec.Struct, frozen=True):
    """Decode, resample and listen to one append. Outcome: ``AudioDecoded``.

    At most one per session is under way; they stay in order. The resets come first: they forget
    what a clear or commit cut off.

    Attributes:
        audio: bytes in ``format`` (a canonical format name) at ``rate`` Hz; may be empty.
        reset_stream: drop the odd byte and the resampler's state.
        reset_detector: drop the detector's stream state, keep its clock.
        listen: run the detector, if one is configured.
        flush: the input ends here: give out what the resampler still holds too, then forget the
            stream.
    """

    op: int
    audio: bytes
    format: str
    rate: int
    reset_stream: bool = False
    reset_detector: bool = False
    listen: bool = True
    flush: bool = False


class ConfigureInput(msgspec.Struct, frozen=True):
    """Exchange the detector, None for none. Outcome: ``InputConfigured``."""

    op: int
    turn_detection: TurnDetection | None


class PlanAppend(msgspec.Struct, frozen=True):
    """Have the plugin make a prompt of this unit. Outcome: ``AppendPlanned``."""

    op: int
    request: AppendRequest


class RegisterRequest(msgspec.Struct, frozen=True):
    """``DuplexStagePort.ensure_request``; never takes time. A failure: ``StageFailed``."""

    context: DuplexStageRequestContext


class SubmitUnit(msgspec.Struct, frozen=True):
    """Give a unit to stage 0. Outcome: ``UnitSubmitted``."""

    op: int
    submission: DuplexStageSubmission


class AbortRequests(msgspec.Struct, frozen=True):
    """Stop stage work of an ended epoch and release it. Outcome: ``RequestsAborted``.

    Attributes:
        request_ids: every id bound to the ended epoch.
        heard_ms: how much of the answer was heard.
        epoch: the epoch that begins.
    """

    op: int
    request_ids: tuple[str, ...]
    heard_ms: float
    epoch: int


class ReleaseRequests(msgspec.Struct, frozen=True):
    """Forget requests whose turn is over; nothing runs under them. Outcome: ``RequestsAborted``."""

    op: int
    request_ids: tuple[str, ...]


class ReleaseStages(msgspec.Struct, frozen=True):
    """The session ends: abort ``submitted``, drop ``reserved``, close model state in every stage.

    Outcome: ``StagesReleased``.
    """

    op: int
    submitted: tuple[str, ...]
    reserved: tuple[str, ...]


class DropQueuedAudio(msgspec.Struct, frozen=True):
    """Remove queued audio of a response up to an epoch; report ``QueuedAudioDropped`` if any."""

    response_id: str
    through_epoch: int


class WakeAt(msgspec.Struct, frozen=True):
    """Send ``TimerFired`` at this time, seconds of the clock of ``now``. The last one counts."""

    at: float | None


class AnswerControl(msgspec.Struct, frozen=True):
    """Answer a lease operation."""

    control_id: str
    generation: int = 0
    public_session: dict[str, Any] | None = None
    fault: Fault | None = None


class MarkClosing(msgspec.Struct, frozen=True):
    """The session has begun to end: it takes no more commands and keeps its slot."""

    reason: str
    expired: bool = False


class Ended(msgspec.Struct, frozen=True):
    """The terminal event was emitted. ``released``: the slot is free; else cleanup is retried.

    It may come twice: once with the terminal of a close that waited too long for its cleanup
    (``released`` false), once more when that cleanup succeeds after all.
    """

    released: bool
    request_ids: tuple[str, ...] = ()


class TellLag(msgspec.Struct, frozen=True):
    """For the figures of the deployment: how far the model is behind, 0 when it caught up.

    Attributes:
        dropped: units given up since the last one.
        lag_ms: age of the oldest unit that no stage has taken.
    """

    dropped: int
    lag_ms: float


class Report(msgspec.Struct, frozen=True):
    """Write a line to the log; never shown to a client."""

    level: Literal["info", "warning", "error"]
    message: str


Effect = (
    Emit
    | DecodeAudio
    | ConfigureInput
    | PlanAppend
    | RegisterRequest
    | SubmitUnit
    | AbortRequests
    | ReleaseRequests
    | ReleaseStages
    | DropQueuedAudio
    | WakeAt
    | AnswerControl
    | MarkClosing
    | Ended
    | Report
    | TellLag
)
