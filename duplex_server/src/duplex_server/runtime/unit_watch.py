"""What becomes of each unit of a session's input on its way to the model, with times."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duplex_sdk.session.effects import Effect, PlanAppend, SubmitUnit
from duplex_sdk.session.inputs import AppendPlanned, Input, UnitSubmitted

if TYPE_CHECKING:
    from duplex_sdk.session.inputs import Fault

__all__ = ["UnitTiming", "UnitWatch"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnitTiming:
    """One unit that the model took, or did not get. Times are nanoseconds since 1970.

    Attributes:
        epoch: of the session when it was planned.
        turn_id: the model's turn.
        seq: its number in the epoch, from 1.
        planned_at: the plugin was asked for its prompt.
        submitted_at: the prompt went to stage 0; None: there was none.
        ended_at: stage 0 took it, or it failed.
        fault: why it failed, as an error code; None: it was taken.
    """

    epoch: int
    turn_id: int
    seq: int
    planned_at: int
    submitted_at: int | None
    ended_at: int
    fault: str | None


@dataclass(slots=True)
class _Unit:
    epoch: int
    turn_id: int
    seq: int
    planned_at: int
    submitted_at: int | None = None


class UnitWatch:
    """Follows the units of one session by its effects and their outcomes. On the engine's loop.

    Args:
        tell: takes each timing, on the engine's thread; it must not wait.
        clock: nanoseconds since 1970.
    """

    def __init__(
        self, tell: Callable[[UnitTiming], object], clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._units: dict[int, _Unit] = {}
        self._planned: _Unit | None = None

    def asked(self, effect: Effect) -> None:
        """The session asks for this, now."""
        if type(effect) is PlanAppend:
            request = effect.request
            fence = request.fence
            self._units[effect.op] = _Unit(fence.epoch, fence.turn_id, request.seq, self._clock())
        elif type(effect) is SubmitUnit:
            unit, self._planned = self._planned, None
            if unit is not None:
                unit.submitted_at = self._clock()
                self._units[effect.op] = unit

    def came(self, item: Input) -> None:
        """The session is about to be handed this."""
        if type(item) is AppendPlanned:
            self._planned = unit = self._units.pop(item.op, None)
            if unit is not None and item.fault is not None:
                self._planned = None
                self._end(unit, item.fault)
        elif type(item) is UnitSubmitted:
            unit = self._units.pop(item.op, None)
            if unit is not None:
                self._end(unit, item.fault)

    def _end(self, unit: _Unit, fault: Fault | None) -> None:
        timing = UnitTiming(
            unit.epoch,
            unit.turn_id,
            unit.seq,
            unit.planned_at,
            unit.submitted_at,
            self._clock(),
            None if fault is None else fault.code,
        )
        try:
            self._tell(timing)
        except Exception:
            logger.exception("nobody could be told of a unit")
