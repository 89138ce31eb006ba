"""Stages exist before the orchestrator that listens to them: until then nobody does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from duplex_server.stages import StageListener

if TYPE_CHECKING:
    from duplex_sdk.stage import StageError, StageOutput

__all__ = ["Unheard"]


class Unheard(StageListener):
    """The listener of stages that serve nobody yet: no session can have made them say anything."""

    def on_outputs(self, stage_id: int, replica_id: int, outputs: Sequence[StageOutput]) -> None:
        """Pass over."""

    def on_failed(self, stage_id: int, session_id: str, error: StageError) -> None:
        """Pass over."""

    def on_taken(self, stage_id: int, session_id: str, epoch: int, seq: int) -> None:
        """Pass over."""

    def on_idle(self, stage_id: int, session_id: str) -> None:
        """Pass over."""
