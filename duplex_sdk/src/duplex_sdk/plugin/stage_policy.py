"""Which stages a plugin runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duplex_sdk.stage import Json, PipelineConfig, StageOutput

    from .views import OutputContext

__all__ = ["StagePolicy"]


class StagePolicy(ABC):
    """Stage side of a plugin."""

    @abstractmethod
    def pipeline(self) -> PipelineConfig:
        """The stages, in order. Called once, before any of them starts."""

    def configure_sampling_params(
        self,
        *,
        runtime_config: Mapping[str, Json],
        defaults: tuple[Mapping[str, Json], ...],
    ) -> tuple[Mapping[str, Json], ...]:
        """The sampling parameters of a session: one mapping per stage, in stage order."""
        return defaults

    def release_concurrent_turn_requests(self, output: StageOutput, context: OutputContext) -> bool:
        """Whether the next turn may begin while this one still drains.

        Asked only of a model with ``supports_concurrent_turn_requests``, at each of its outputs.
        """
        return False

    def draining_stage_ids(self, stage_count: int) -> tuple[int, ...]:
        """The stages that may go on for the turn before when the next one begins.

        None of them: the next turn waits, whatever ``release_concurrent_turn_requests`` says.
        """
        return ()
