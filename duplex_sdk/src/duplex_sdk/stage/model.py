"""``StageModel``: what a model author writes to run a model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from duplex_sdk.errors import DuplexError

from .types import Json, StageOutput, StageSession, StageUnit

__all__ = ["LoadContext", "StageInfo", "StageLoadError", "StageModel"]

S = TypeVar("S")


class StageLoadError(DuplexError):
    """A model could not be loaded; ``hint`` says what to do about it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)


def _ignore_progress(fraction: float, text: str) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class LoadContext:
    """Where and how a model is to be loaded.

    Attributes:
        stage_id: position of the stage in the pipeline, from 0.
        replica_id: which copy of the stage this is, from 0.
        device: ``cpu``, ``cuda:0`` and the like.
        options: the stage's options from pipeline and deployment.
        max_batch: the largest batch ``step`` will be given.
        progress: call it with 0..1 and what is being loaded; safe from the loading thread.
    """

    stage_id: int = 0
    replica_id: int = 0
    device: str = "cpu"
    options: Mapping[str, Json] = field(default_factory=dict)
    max_batch: int = 64
    progress: Callable[[float, str], None] = _ignore_progress


class StageInfo(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a loaded model says of itself.

    Attributes:
        device: where it runs.
        memory_bytes: what it occupies there; 0 when not known.
        max_sessions: how many sessions this replica can hold; None: no limit of its own.
    """

    device: str = "cpu"
    memory_bytes: int = 0
    max_sessions: int | None = None


class StageModel(ABC, Generic[S]):
    """A model that computes for many sessions, one unit of each at a time.

    ``S`` is the author's own state of one session: ``open`` makes it, every unit brings it,
    ``close`` ends it. The host keeps the table of sessions; the model keeps none by session id.

    All calls of one instance come from one thread, one at a time, never from inside another.
    ``now`` is the host's clock in seconds, the only clock a model may read. A call that does not
    return within the deployment's time limit counts as stuck, and its sessions end.

    Write ``step_unit`` for a model that handles one session at a time, or ``step`` for one that
    computes a batch in one forward; not both.
    """

    @abstractmethod
    def load(self, context: LoadContext) -> StageInfo:
        """Load weights and warm up; called once, before anything else.

        Raises:
            StageLoadError: it cannot be loaded, and why. The start-up fails with its hint.
        """

    @abstractmethod
    def open(self, session: StageSession) -> S:
        """A new session's state. An exception ends that session."""

    def prefill(self, state: S, now: float) -> float | None:
        """Work off a piece of what must be computed before the first unit.

        Returns:
            None when done, else in how many ms to go on (0: at once, after the others). The
            session's units wait meanwhile and are not late. An exception ends that session.
        """
        return None

    def step_unit(self, unit: StageUnit[S], now: float) -> Iterable[StageOutput]:
        """Compute one unit; a generator's outputs are sent when the whole step ends.

        An exception fails this unit only.
        """
        raise NotImplementedError(f"{type(self).__name__} writes neither step_unit nor step")

    def step(self, units: Sequence[StageUnit[S]], now: float) -> Iterable[StageOutput]:
        """Compute a batch: at most one unit of each session, oldest first.

        Outputs may come in any order between sessions and stay in order within one. An exception
        ends every session of the batch, because nobody knows what became of their state: report
        single failures with ``unit.failed``.
        """
        for unit in units:
            yield from self.step_unit(unit, now)

    def update(self, state: S, session: StageSession) -> None:
        """Configuration, runtime or sampling changed; called before the session's next unit.

        An exception ends that session.
        """
        return None

    def cancel(self, state: S, epoch: int, heard_ms: float) -> None:
        """Drop what the session still had to say; keep its context.

        Called between steps, once per epoch. Armed ticks and queued units are gone already.

        Args:
            state: of the session.
            epoch: the epoch that begins.
            heard_ms: how much of the answer was heard.
        """
        return None

    def close(self, state: S) -> None:
        """End the session's state; exactly once per ``open`` that returned, also after failures."""
        return None

    def unload(self) -> None:
        """Release everything; the last call, after every session was closed."""
        return None

    def call(self, method: str, arguments: Mapping[str, Json]) -> Json:
        """Answer a collective call, such as a profile or a cache reset.

        Raises:
            LookupError: the model knows no such method (the default for all of them).
        """
        raise LookupError(f"{type(self).__name__} answers no call named {method!r}")
