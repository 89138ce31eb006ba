"""The workloads as data: what is sent, how long, to how many sessions."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FULL", "SMOKE", "Sockets", "Spoken", "Units", "Workload"]


@dataclass(frozen=True, slots=True)
class Units:
    """Units of one length, each answered by one of the same length.

    Attributes:
        unit_ms: length of a unit and of its answer.
        input_rate_hz: of the PCM16 that goes in; the model's own, so that nothing is resampled.
        output_rate_hz: of the PCM16 that comes out.
        warm_up: units before anything is measured.
        lockstep: units sent one by one, each after the answer to the last.
        pipelined: units sent without waiting.
        cancels: responses begun and cancelled.
        beside: sessions that stream while the cancels beside others are measured.
        idle_sessions: sessions that do nothing.
        idle_s: how long they are watched.
        realtime_steps: numbers of sessions tried in real time, in order, until one does not hold.
        realtime_s: how long each is held.
    """

    unit_ms: int = 80
    input_rate_hz: int = 16_000
    output_rate_hz: int = 24_000
    warm_up: int = 200
    lockstep: int = 2_000
    pipelined: int = 20_000
    cancels: int = 300
    beside: int = 16
    idle_sessions: int = 1_000
    idle_s: float = 10.0
    realtime_steps: tuple[int, ...] = (
        *(8, 16, 32, 48, 64, 96, 128, 192, 256),
        *(384, 512, 768, 1_024, 1_536, 2_048, 3_072),
    )
    realtime_s: float = 5.0

    @property
    def input_bytes(self) -> int:
        """Bytes of one unit of input."""
        return self.input_rate_hz * 2 * self.unit_ms // 1000

    @property
    def output_bytes(self) -> int:
        """Bytes of one unit of output."""
        return self.output_rate_hz * 2 * self.unit_ms // 1000


@dataclass(frozen=True, slots=True)
class Spoken:
    """People who ask and wait for the answer, through real sockets.

    Attributes:
        question: what each says; the answer is short.
        turns: questions a session asks.
        sessions: how many talk at once, one run for each number.
        append_ms: audio in one append, as browsers and telephones send it.
        pause_s: between an answer and the next question, at least and at most.
    """

    question: str = "What is seven plus five?"
    turns: int = 6
    sessions: tuple[int, ...] = (1, 16)
    append_ms: int = 20
    pause_s: tuple[float, float] = (0.6, 2.0)


@dataclass(frozen=True, slots=True)
class Sockets:
    """Callers that stream units in real time through sockets.

    Attributes:
        steps: numbers of them, in order, until the answers come late.
        seconds: how long each is held.
        cancelling: callers that cancel afterwards.
    """

    steps: tuple[int, ...] = (16, 64, 128, 256, 384, 512, 650, 800, 1_000)
    seconds: float = 5.0
    cancelling: int = 16


@dataclass(frozen=True, slots=True)
class Workload:
    """Everything one run measures."""

    name: str
    units: Units
    sockets: Sockets
    spoken: Spoken
    imports: int


FULL = Workload("full", Units(), Sockets(), Spoken(), imports=9)
SMOKE = Workload(
    "smoke",
    Units(
        warm_up=20,
        lockstep=100,
        pipelined=500,
        cancels=10,
        beside=2,
        idle_sessions=20,
        idle_s=0.5,
        realtime_steps=(8,),
        realtime_s=0.5,
    ),
    Sockets(steps=(4,), seconds=0.5, cancelling=2),
    Spoken(turns=2, sessions=(1,)),
    imports=1,
)
