"""What engine and worker say to each other: array-like tagged structs, carried as msgpack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from duplex_sdk.stage.host.result import StepReport
from duplex_sdk.stage.model import StageInfo
from duplex_sdk.stage.types import Json, StageError, StageOutput, StageSession, UnitRequest

__all__ = [
    "PROTOCOL",
    "SECRET_VARIABLE",
    "Call",
    "CallResult",
    "Cancel",
    "Close",
    "Closed",
    "Failed",
    "FromWorker",
    "Hello",
    "HelloReply",
    "Hold",
    "Load",
    "LoadFailed",
    "Log",
    "Open",
    "Opened",
    "Outputs",
    "Ping",
    "Pong",
    "Progress",
    "Ready",
    "Shutdown",
    "ToWorker",
    "Units",
    "Update",
    "same_major",
]

PROTOCOL = 2
"""Version of these messages and of their frames; both ends must have the same."""

SECRET_VARIABLE = "DUPLEX_WORKER_SECRET"
"""Environment variable from which a worker learns what its engine will present."""

LogLevel = Literal["debug", "info", "warning", "error", "critical"]


def same_major(ours: str, theirs: str) -> bool:
    """Whether two versions of the plugin API, ``major.minor``, are of one major."""
    return ours.partition(".")[0] == theirs.partition(".")[0]


class _Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Its tag is the name of its class."""


# To the worker


class Hello(_Message, frozen=True):
    """The first frame of a connection: who calls, and the secret that proves it."""

    protocol: int
    api: str
    secret: str


class Load(_Message, frozen=True):
    """Load a model; answered by ``Progress`` and then ``Ready`` or ``LoadFailed``.

    Attributes:
        plugin: its plugin, for people.
        model: ``"package.module:Class"`` of the ``StageModel``; None: vLLM serves the model.
        stage_id: position of the stage in the pipeline.
        replica_id: which copy of the stage it is.
        device: where it is to run; None: CUDA where the worker has it, else the CPU.
        memory_bytes: what it needs there, checked before it is loaded; 0: not known.
        options: the stage's options.
        max_batch: sessions in one step at most.
        gather_ms: how long a step waits for more sessions.
        period_ms: a unit that ends later than this is late; None: never.
        output_rate: Hz that output audio must have; None: any.
        vllm: vLLM's engine arguments, where it serves the model.
        sampling: the stage's own sampling parameters, to be checked where vLLM serves the model;
            each session brings its own.
    """

    plugin: str
    model: str | None
    stage_id: int
    replica_id: int
    device: str | None = None
    memory_bytes: int = 0
    options: Mapping[str, Json] = {}
    max_batch: int = 64
    gather_ms: float = 0.0
    period_ms: float | None = None
    output_rate: int | None = None
    vllm: Mapping[str, Json] = {}
    sampling: Mapping[str, Json] = {}


class Open(_Message, frozen=True):
    """Make the model's state of a session."""

    session: StageSession


class Units(_Message, frozen=True):
    """Units of open sessions, in order within each session."""

    units: Sequence[UnitRequest]


class Update(_Message, frozen=True):
    """A session's configuration, runtime or sampling changed."""

    session: StageSession


class Cancel(_Message, frozen=True):
    """An epoch begins: nothing of an older one leaves the worker after this."""

    session_id: str
    epoch: int
    heard_ms: float


class Hold(_Message, frozen=True):
    """Give the session no ticks, or give them again."""

    session_id: str
    held: bool


class Close(_Message, frozen=True):
    """End a session's state; answered by ``Closed``, also for an unknown id."""

    session_id: str


class Call(_Message, frozen=True):
    """A collective call; answered by the ``CallResult`` with the same id."""

    id: int
    method: str
    arguments: Mapping[str, Json]


class Ping(_Message, frozen=True):
    """Answered at once by the ``Pong`` with the same number, whatever the model does."""

    n: int


class Shutdown(_Message, frozen=True):
    """Close all sessions, unload and end, within so many seconds."""

    grace_s: float


ToWorker: TypeAlias = (
    Hello | Load | Open | Units | Update | Cancel | Hold | Close | Call | Ping | Shutdown
)


# From the worker


class HelloReply(_Message, frozen=True):
    """Who answers: protocol, plugin API, version of the SDK and of Python, process id."""

    protocol: int
    api: str
    sdk: str
    python: str
    pid: int


class Progress(_Message, frozen=True):
    """How far loading is, 0..1, and what is being loaded."""

    fraction: float
    text: str


class Ready(_Message, frozen=True):
    """The model is loaded."""

    info: StageInfo


class LoadFailed(_Message, frozen=True):
    """The model did not load; ``trace`` is the traceback, for the log."""

    message: str
    hint: str | None
    trace: str


class Opened(_Message, frozen=True):
    """A session takes units from now on; ``ms`` were spent in open and prefill."""

    session_id: str
    ms: float


class Outputs(_Message, frozen=True):
    """What one pass of the host made. It ends the pass: whatever else it brought came before.

    Attributes:
        outputs: in order within one session.
        taken: ``(session_id, epoch, seq)`` of units whose credit is free again.
        idle: sessions that became idle.
        report: of the step, if there was one.
    """

    outputs: Sequence[StageOutput] = ()
    taken: Sequence[tuple[str, int, int]] = ()
    idle: Sequence[str] = ()
    report: StepReport | None = None


class Failed(_Message, frozen=True):
    """The model can no longer serve this session; it waits for its ``Close``."""

    session_id: str
    error: StageError


class Closed(_Message, frozen=True):
    """A session's state is gone."""

    session_id: str


class CallResult(_Message, frozen=True):
    """The answer to a ``Call``: a value, or why there is none."""

    id: int
    value: Json = None
    error: str | None = None


class Pong(_Message, frozen=True):
    """The worker lives.

    Attributes:
        n: number of the ``Ping``.
        busy_ms: how long the call of the model under way has lasted; 0: none is under way.
        rss: bytes of memory the process occupies; 0 when not known.
        device_memory: bytes it occupies on its device; 0 when not known.
    """

    n: int
    busy_ms: float
    rss: int
    device_memory: int


class Log(_Message, frozen=True):
    """A line of the worker's log."""

    level: LogLevel
    text: str


FromWorker: TypeAlias = (
    HelloReply
    | Progress
    | Ready
    | LoadFailed
    | Opened
    | Outputs
    | Failed
    | Closed
    | CallResult
    | Pong
    | Log
)
