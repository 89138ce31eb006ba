"""What one pass of the host hands back."""

from __future__ import annotations

import msgspec

from duplex_sdk.stage.types import StageError, StageOutput

__all__ = ["HostResult", "StepReport"]


class StepReport(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How one step went.

    Attributes:
        step_ms: time spent in the model.
        batch: how many sessions were stepped.
        late: units that ended later than the stage's period after they could have been taken.
        nan_samples: samples that were no numbers and were made zero.
    """

    step_ms: float
    batch: int
    late: int = 0
    nan_samples: int = 0


class HostResult(msgspec.Struct, array_like=True):
    """Everything that left the host since the last pass, to be read in the order of the fields.

    Attributes:
        opened: sessions that take units from now on, and how long open and prefill computed (ms).
        outputs: in order within one session.
        failed: sessions the model can no longer serve; each waits for its ``close``.
        taken: units that are no longer with the stage (stepped, or dropped by a cancel, a failure
            or a close) as ``(session_id, epoch, seq)``: their credit is free again.
        idle: sessions that became idle: nothing queued, no tick armed.
        closed: sessions whose state is gone.
        report: of the step, if there was one.
    """

    opened: list[tuple[str, float]] = []
    outputs: list[StageOutput] = []
    failed: list[tuple[str, StageError]] = []
    taken: list[tuple[str, int, int]] = []
    idle: list[str] = []
    closed: list[str] = []
    report: StepReport | None = None

    def __bool__(self) -> bool:
        """Whether there is anything to deliver."""
        return bool(
            self.outputs
            or self.taken
            or self.idle
            or self.failed
            or self.closed
            or self.opened
            or self.report is not None
        )
