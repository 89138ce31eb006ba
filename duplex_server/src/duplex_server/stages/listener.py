"""``StageListener``: who hears what the stages of a pipeline do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from duplex_sdk.stage import StageError, StageOutput
from duplex_sdk.stage.host import StepReport

__all__ = ["StageListener"]


class StageListener(ABC):
    """Receives everything that comes out of stage pools, on the engine loop, never re-entrantly.

    No method is called from inside a call to a pool: a pool's methods return first. For one session
    of one stage the order is: outputs, a failure, freed credit, idleness. A method must not raise.
    """

    @abstractmethod
    def on_outputs(self, stage_id: int, replica_id: int, outputs: Sequence[StageOutput]) -> None:
        """Outputs of many sessions of one step, in order within each session.

        After ``StagePool.cancel`` returned, none of an older epoch comes; after
        ``StagePool.close`` was called, none of that session.
        """

    @abstractmethod
    def on_failed(self, stage_id: int, session_id: str, error: StageError) -> None:
        """The stage can no longer serve this session; it still has to be closed.

        Called once per session and stage, for a model's failure and for a dead replica alike.
        """

    @abstractmethod
    def on_taken(self, stage_id: int, session_id: str, epoch: int, seq: int) -> None:
        """A unit is no longer with the stage: the session has room for one more."""

    @abstractmethod
    def on_idle(self, stage_id: int, session_id: str) -> None:
        """The session has nothing queued, no tick armed and no unit on the way in this stage.

        Called once per change to idle, after everything that preceded it.
        """

    def on_report(self, stage_id: int, replica_id: int, report: StepReport) -> None:
        """How a step went."""
        return None

    def on_opened(self, stage_id: int, session_id: str, took_ms: float) -> None:
        """The session's state exists and its prefill is done."""
        return None

    def on_replica_dead(
        self, stage_id: int, replica_id: int, reason: str, session_ids: Sequence[str]
    ) -> None:
        """A replica died or got stuck. ``on_failed`` follows for each session bound to it."""
        return None

    def on_replica_ready(self, stage_id: int, replica_id: int, restarts: int) -> None:
        """A replica can take sessions, at the start or after a restart."""
        return None
