"""Everything that can happen to a session: what ``DuplexEngineSession.handle`` takes.

Names are in the past tense. An input that reports how an effect went carries the ``op`` of that
effect; the shell returns exactly one outcome for each effect that has an ``op``, also when the
work failed, hung past its time or was called off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from duplex_sdk.audio import PcmChunk
    from duplex_sdk.plugin import DuplexAppendPlan, DuplexOutputDecision
    from duplex_sdk.protocol.duplex import DuplexEvent
    from duplex_sdk.protocol.duplex.commands import RealtimeCommand
    from duplex_sdk.stage import StageOutput

__all__ = [
    "AppendPlanned",
    "AudioDecoded",
    "CloseRequested",
    "CommandReceived",
    "Fault",
    "Input",
    "InputConfigured",
    "LeaseDetached",
    "LeaseResumed",
    "LeaseTouched",
    "OutputRefused",
    "QueuedAudioDropped",
    "RequestsAborted",
    "SpeechMark",
    "SpeechVerdict",
    "StageFailed",
    "StageOutputReceived",
    "StagesIdle",
    "StagesReleased",
    "Started",
    "TimerFired",
    "UnitSubmitted",
]


class Fault(msgspec.Struct, frozen=True):
    """Why something failed: a code of the wire's table, and words for a person."""

    code: str
    message: str
    param: str | None = None


class SpeechMark(msgspec.Struct, frozen=True, gc=False):
    """The detector saw an utterance begin or end, in ms of the session's input clock."""

    kind: Literal["started", "stopped"]
    at_ms: int


class SpeechVerdict(msgspec.Struct, frozen=True, gc=False):
    """What is known of the speech in one append.

    Attributes:
        is_speech: the detector's word for the chunk; None when no detector ran.
        active: the utterance goes on past the end of the chunk (detector only).
        marks: begins and ends inside the chunk, in order.
        rms: root mean square of the decoded samples, full scale 1.0; None without samples.
        voiced_ms: speech in the chunk without the silence that an utterance ends with; what was
            heard while the detector made up its mind counts with the chunk in which it did. None
            when no detector ran.
    """

    is_speech: bool | None = None
    active: bool = False
    marks: tuple[SpeechMark, ...] = ()
    rms: float | None = None
    voiced_ms: float | None = None


class Started(msgspec.Struct, frozen=True):
    """The session was admitted and may speak; ``by_update``: a ``session.update`` opened it."""

    by_update: bool = False


class CommandReceived(msgspec.Struct, frozen=True):
    """A client asks for something.

    ``lenient`` is a profile's wish: what can no longer change keeps its value, options that the
    model cannot honour are dropped, and neither fails the command.
    """

    command: RealtimeCommand
    lenient: bool = False


class AudioDecoded(msgspec.Struct, frozen=True):
    """An append came back from decoding: samples at the model's input rate and the verdict.

    ``audio`` is None when the append held none (video frames alone) or the resampler kept it all.
    """

    op: int
    audio: PcmChunk | None = None
    verdict: SpeechVerdict = SpeechVerdict()
    fault: Fault | None = None


class InputConfigured(msgspec.Struct, frozen=True):
    """The detector was exchanged; on ``fault`` there is none now."""

    op: int
    fault: Fault | None = None


class AppendPlanned(msgspec.Struct, frozen=True):
    """The plugin made a prompt of a unit, or failed to."""

    op: int
    plan: DuplexAppendPlan | None = None
    fault: Fault | None = None


class UnitSubmitted(msgspec.Struct, frozen=True):
    """Stage 0 took a unit, or did not."""

    op: int
    fault: Fault | None = None


class RequestsAborted(msgspec.Struct, frozen=True):
    """Stage work of an ended epoch was stopped and its logical state released, or not."""

    op: int
    fault: Fault | None = None


class StagesReleased(msgspec.Struct, frozen=True):
    """The stage cleanup of a closing session ended; with ``fault`` its slot must be retained."""

    op: int
    fault: Fault | None = None


class QueuedAudioDropped(msgspec.Struct, frozen=True):
    """A cancel removed so much audio of a response from the output queue."""

    response_id: str
    duration_ms: float


class StageOutputReceived(msgspec.Struct, frozen=True):
    """A stage produced something for this session.

    Attributes:
        stage_id: position of the stage in the pipeline, from 0.
        is_last: no stage follows.
        decision: what the plugin's ``decide_output`` said; None: forwarded.
        shown: an intermediate output that the client sees and that is forwarded as well.
        metrics: per-segment stage metrics, attributed to the response.
    """

    output: StageOutput
    stage_id: int
    is_last: bool = True
    decision: DuplexOutputDecision | None = None
    shown: bool = False
    metrics: dict[str, Any] | None = None


class StagesIdle(msgspec.Struct, frozen=True):
    """All stages of the session are idle: nothing queued, no tick armed, nothing on the way.

    Sent once per change to idle, after the outputs that preceded it.

    Attributes:
        epoch: of the work that is done.
        seq: the session's ``accepted_seq`` when that was seen. The news may wait behind outputs
            that a slow reader holds up; work accepted meanwhile makes it old.
    """

    epoch: int
    seq: int


class OutputRefused(msgspec.Struct, frozen=True):
    """The output buffer is full: it refused the first of ``events``; the rest were not tried.

    ``limit`` says which budget it was: ``bytes``, ``events`` or ``stage_output``.
    """

    events: tuple[DuplexEvent, ...]
    limit: str = "bytes"


class TimerFired(msgspec.Struct, frozen=True):
    """The time asked for by ``WakeAt`` has come, or a little more."""


class StageFailed(msgspec.Struct, frozen=True):
    """A stage or worker died, or forwarding failed, for this session."""

    code: str
    message: str
    scope: Literal["response", "session"] = "session"


class LeaseTouched(msgspec.Struct, frozen=True):
    """Somebody shows interest: refreshes the lease. Answered by ``AnswerControl``."""

    control_id: str
    activity: str


class LeaseDetached(msgspec.Struct, frozen=True):
    """The socket is gone. Answered by ``AnswerControl``."""

    control_id: str
    expected_generation: int


class LeaseResumed(msgspec.Struct, frozen=True):
    """A new socket wants the session. Answered by ``AnswerControl``."""

    control_id: str
    expected_generation: int


class CloseRequested(msgspec.Struct, frozen=True):
    """The session must end: by its owner, by time or by the engine."""

    reason: str
    expired: bool = False


Input = (
    Started
    | CommandReceived
    | AudioDecoded
    | InputConfigured
    | AppendPlanned
    | UnitSubmitted
    | RequestsAborted
    | StagesReleased
    | QueuedAudioDropped
    | StageOutputReceived
    | StagesIdle
    | OutputRefused
    | TimerFired
    | StageFailed
    | LeaseTouched
    | LeaseDetached
    | LeaseResumed
    | CloseRequested
)
