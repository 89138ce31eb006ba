"""Under which request a unit goes to the stages, and what they are told with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duplex_sdk.plugin import DuplexStageRequestContext, stage_request_id, stage_role

from .effects import RegisterRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .response import Response
    from .state import SessionState

__all__ = ["RequestContexts"]


class RequestContexts:
    """Makes the contexts of one session's stage requests."""

    __slots__ = ("_context", "_context_key", "_state")

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._context: DuplexStageRequestContext | None = None
        self._context_key = (0, 0, 0)

    def current(self) -> DuplexStageRequestContext:
        """The conversation's stage request as it is now; the same one while nothing changes."""
        state = self._state
        key = (state.epoch, state.turn_id, state.config_generation)
        if self._context is None or self._context_key != key:
            self._context, self._context_key = self._new_context(), key
        return self._context

    def _new_context(self) -> DuplexStageRequestContext:
        state = self._state
        turn = None if state.capabilities.supports_core_resumable_request else state.turn_id
        return self._context_of(
            stage_role(0, turn),
            config=state.published.config,
            sampling=state.published.sampling,
            generation=state.config_generation,
        )

    def apart(self, response: Response) -> DuplexStageRequestContext:
        """The stage request of a response beside the conversation."""
        published, generation = self._state.publish_beside(response.config)
        context = self._context_of(
            f"{stage_role(0)}-{response.id}",
            config=published.config,
            sampling=published.sampling,
            generation=generation,
        )
        response.request_id = context.request_id
        return context

    def _context_of(
        self,
        role: str,
        *,
        config: Mapping[str, Any],
        sampling: tuple[Mapping[str, Any], ...],
        generation: int,
    ) -> DuplexStageRequestContext:
        state = self._state
        fence = state.fence
        return DuplexStageRequestContext(
            request_id=stage_request_id(fence, role),
            session_id=state.session_id,
            fence=fence,
            stage_id=0,
            final_stage_id=len(state.pipeline.stages) - 1,
            config_generation=generation,
            sampling_params=sampling,
            session_config=config,
            runtime_config=state.runtime_config,
            seed=state.seed,
        )

    def register(self, context: DuplexStageRequestContext) -> None:
        """Have the stages know a request, unless they know it with this very config."""
        requests = self._state.requests
        if requests.needs_registration(context.request_id, context.config_generation):
            requests.register(context.request_id, context.fence.epoch, context.config_generation)
            self._state.do(RegisterRequest(context))
