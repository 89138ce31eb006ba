"""Stages exist before the orchestrator that listens to them: the relay stands in until then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from duplex_server.stages import StageListener

if TYPE_CHECKING:
    from duplex_sdk.stage import StageError, StageOutput
    from duplex_sdk.stage.host import StepReport

__all__ = ["StageRelay"]


class StageRelay(StageListener):
    """Passes everything on to ``target``; before there is one, nothing can have happened."""

    def __init__(self) -> None:
        self.target: StageListener | None = None

    def on_outputs(self, stage_id: int, replica_id: int, outputs: Sequence[StageOutput]) -> None:
        """Pass on."""
        if self.target is not None:
            self.target.on_outputs(stage_id, replica_id, outputs)

    def on_failed(self, stage_id: int, session_id: str, error: StageError) -> None:
        """Pass on."""
        if self.target is not None:
            self.target.on_failed(stage_id, session_id, error)

    def on_taken(self, stage_id: int, session_id: str, epoch: int, seq: int) -> None:
        """Pass on."""
        if self.target is not None:
            self.target.on_taken(stage_id, session_id, epoch, seq)

    def on_idle(self, stage_id: int, session_id: str) -> None:
        """Pass on."""
        if self.target is not None:
            self.target.on_idle(stage_id, session_id)

    def on_report(self, stage_id: int, replica_id: int, report: StepReport) -> None:
        """Pass on."""
        if self.target is not None:
            self.target.on_report(stage_id, replica_id, report)

    def on_opened(self, stage_id: int, session_id: str, took_ms: float) -> None:
        """Pass on."""
        if self.target is not None:
            self.target.on_opened(stage_id, session_id, took_ms)

    def on_replica_dead(
        self, stage_id: int, replica_id: int, reason: str, session_ids: Sequence[str]
    ) -> None:
        """Pass on."""
        if self.target is not None:
            self.target.on_replica_dead(stage_id, replica_id, reason, session_ids)

    def on_replica_ready(self, stage_id: int, replica_id: int, restarts: int) -> None:
        """Pass on."""
        if self.target is not None:
            self.target.on_replica_ready(stage_id, replica_id, restarts)
