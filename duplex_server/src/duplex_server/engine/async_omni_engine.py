"""``AsyncOmniEngine``: requests without a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .omni_engine_base import OmniEngineBase
from .orchestrator import Orchestrator, OrchestratorBase

if TYPE_CHECKING:
    from duplex_server.stages import StagePool

__all__ = ["AsyncOmniEngine"]


class AsyncOmniEngine(OmniEngineBase):
    """Runs a pipeline for requests that come and go."""

    def _create_orchestrator(self, pools: Sequence[StagePool]) -> OrchestratorBase:
        return Orchestrator(
            self.pipeline,
            pools,
            figures=self.figures,
            max_waiting_bytes=self.options.max_waiting_bytes,
        )
