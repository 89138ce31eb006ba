"""Counters of one engine, for ``/health`` and ``/metrics``. Written on the loop, read anywhere."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from duplex_sdk.stage.host import StepReport

__all__ = ["EngineFigures"]


@dataclass(slots=True)
class EngineFigures:
    """What happened since the start.

    Attributes:
        units_late: units that a stage answered after their period.
        nan_samples: samples from a model that were no numbers.
        steps: steps by stage.
        cleanup_retries: stage cleanups tried again.
        rejections: opens refused, by code.
        on_step: called with stage id, milliseconds and batch size of each step; None: nobody.
    """

    units_late: int = 0
    nan_samples: int = 0
    steps: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    cleanup_retries: int = 0
    rejections: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    on_step: Callable[[int, float, int], None] | None = None

    def count_step(self, stage_id: int, report: StepReport) -> None:
        """Add one step."""
        self.steps[stage_id] += 1
        self.units_late += report.late
        self.nan_samples += report.nan_samples
        if self.on_step is not None:
            self.on_step(stage_id, report.step_ms, report.batch)
