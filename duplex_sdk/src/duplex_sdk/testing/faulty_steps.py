"""Faults in the stage of one session: what its steps do wrong."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, cast

from duplex_sdk.stage import StageOutput, StageUnit

from .faults import Fault, find_fault, struck

__all__ = ["FaultySteps"]

_SOON = 1e-6


class FaultySteps:
    """The faults of one session's stage, and how far it has come. Belongs to the stage's thread.

    Attributes:
        faults: may be replaced while the session runs; steps go on being counted.
        endless: whether the last step made the answer under way one that never ends by itself.
    """

    def __init__(self, faults: tuple[Fault, ...], rate: int) -> None:
        """``rate``: of the model's output in Hz; bad audio is made at it."""
        self.faults, self.endless = faults, False
        self._rate = rate
        self._steps = 0
        self._late: tuple[float, StageOutput] | None = None

    def strike(self, where: str) -> None:
        """Fail as a place does that is passed once: ``open`` or ``close``."""
        _struck(find_fault(self.faults, where, 1), None)

    def spoil(
        self, unit: StageUnit[Any], outputs: list[StageOutput], now: float
    ) -> Iterable[StageOutput]:
        """What a step gives out instead of ``outputs``; ``now`` in seconds of the host's clock."""
        if self._late is not None and self._late[0] <= now + _SOON:
            outputs.append(self._late[1])
            self._late = None
        self._steps += 1
        fault = find_fault(self.faults, "step", self._steps)
        self.endless = fault is not None and fault.do == "endless"
        if fault is None:
            return outputs
        if fault.ms("late_ms"):
            self._late = (now + fault.ms("late_ms") / 1000, unit.output(text=" late"))
            outputs.append(unit.output(again_ms=fault.ms("late_ms")))
        elif fault.do == "double":
            outputs = [each for each in outputs for _ in range(2)]
        bad = fault.bad_audio(self._rate)
        if bad is not None:
            outputs.append(unit.output(audio=bad))
        return cast(Iterable[StageOutput], _struck(fault, outputs))


def _struck(fault: Fault | None, result: Any) -> Any:
    # A stage has a thread of its own, so what hangs blocks it.
    if fault is not None:
        time.sleep(fault.ms("hang_ms") / 1000)
    return struck(fault, result)
