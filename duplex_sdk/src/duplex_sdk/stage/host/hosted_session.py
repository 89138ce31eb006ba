"""One session as the host keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from duplex_sdk.stage.types import StagePrompt, StageSession, StageUnit, UnitRequest

__all__ = ["HostedSession", "QueuedUnit"]

_TICK = StagePrompt(kind="tick")

MOST_REQUESTS = 8
"""A session answers its turn and a few questions beside it; older requests are over."""


class QueuedUnit(msgspec.Struct, frozen=True):
    """A unit that waits; ``arrived`` in seconds, ``order`` breaks ties between sessions."""

    unit: UnitRequest
    arrived: float
    order: int


@dataclass(slots=True)
class HostedSession:
    """State of one session between its open and its close.

    Attributes:
        session: the configuration last told.
        state: the model's own; None when ``has_state`` is false.
        has_state: the model made a state, so it has to be closed.
        phase: ``prefill``: units wait; ``live``: it is stepped; ``failed``: it waits for its close.
        epoch: the newest one told by a unit or a cancel.
        queue: units not stepped yet, oldest first.
        tick_at: when the armed tick is due; None: none is armed.
        held: ticks are not given out for now.
        update_due: the model has not been told ``session`` yet.
        active: something happened since the session was last reported idle.
        last: the unit stepped last, whose identity a tick carries.
        requests: the last requests of this epoch that units came under, any of which may be
            answered in a step.
        live_since: when units could first be taken.
        ready_key: its place among the ready sessions; None: it is not among them.
        prefill_ms: time spent so far in open and prefill.
    """

    session: StageSession
    state: Any = None
    has_state: bool = False
    phase: Literal["prefill", "live", "failed"] = "prefill"
    epoch: int = 0
    queue: list[QueuedUnit] = field(default_factory=list)
    tick_at: float | None = None
    held: bool = False
    update_due: bool = False
    active: bool = False
    last: UnitRequest | None = None
    requests: list[str] = field(default_factory=list)
    live_since: float = 0.0
    ready_key: tuple[float, int] | None = None
    prefill_ms: float = 0.0

    def note(self, unit: UnitRequest) -> None:
        """A unit came: its epoch is the newest, its request may be answered."""
        if unit.epoch > self.epoch:
            self.epoch = unit.epoch
            self.requests.clear()
        if unit.request_id not in self.requests:
            self.requests.append(unit.request_id)
            del self.requests[:-MOST_REQUESTS]

    def tick_is_due(self, now: float) -> bool:
        """Whether a tick may be given out."""
        return self.tick_at is not None and self.tick_at <= now and not self.held

    def next_unit(self) -> tuple[StageUnit[Any], QueuedUnit | None]:
        """Take the oldest unit, or the armed tick when there is none."""
        if self.queue:
            queued = self.queue.pop(0)
            self.last = queued.unit
            return self._with_state(queued.unit, queued.unit.prompt), queued
        assert self.last is not None
        self.tick_at = None
        return self._with_state(self.last, _TICK), None

    def _with_state(self, unit: UnitRequest, prompt: StagePrompt) -> StageUnit[Any]:
        return StageUnit(
            self.state,
            unit.session_id,
            unit.request_id,
            unit.epoch,
            unit.turn_id,
            unit.seq,
            prompt,
        )
