"""What a stage request of a session carries besides any request's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duplex_sdk.stage import StageSession

from .streams import RequestState

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexStageRequestContext

__all__ = ["DuplexOrchestratorRequestState", "stage_sessions"]


@dataclass(slots=True)
class DuplexOrchestratorRequestState(RequestState):
    """A request that a session owns, with what it was registered under."""

    context: DuplexStageRequestContext | None = None


def stage_sessions(
    context: DuplexStageRequestContext, stage_count: int
) -> tuple[StageSession, ...]:
    """What each stage is told of the session.

    Raises:
        ValueError: there is not one mapping of sampling parameters per stage.
    """
    if len(context.sampling_params) != stage_count:
        raise ValueError(
            f"sampling parameters for {len(context.sampling_params)} stages, not {stage_count}"
        )
    return tuple(
        StageSession(
            session_id=context.session_id,
            config=context.session_config,
            runtime=context.runtime_config,
            sampling=sampling,
            seed=context.seed,
        )
        for sampling in context.sampling_params
    )
