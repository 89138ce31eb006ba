"""``DuplexOrchestrator``: hosts the sessions and is their way to the stages."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from duplex_sdk.plugin import (
    DuplexOutputDecision,
    DuplexStagePort,
    DuplexStageRequestContext,
    DuplexStageSubmission,
    DuplexStageSubmissionResult,
    OutputInterpreter,
    request_epoch,
    request_session_id,
)
from duplex_sdk.session.inputs import StageFailed, StageOutputReceived
from duplex_sdk.stage import Json, StageError, StageOutput

from duplex_server.runtime.control import (
    CloseSessionMessage,
    CommandMessage,
    OpenSessionMessage,
    ResumeSessionMessage,
    RoomAskedMessage,
    RoomMadeMessage,
    TouchSessionMessage,
)
from duplex_server.stages import StageUnavailableError

from .orchestrator import Orchestrator
from .session_requests import DuplexOrchestratorRequestState, stage_sessions
from .streams import RequestState, Stream

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexModelPlugin, OutputContext
    from duplex_sdk.stage import PipelineConfig

    from duplex_server.runtime.session_manager import DuplexSessionManager
    from duplex_server.stages import StagePool

    from .figures import EngineFigures

__all__ = ["DuplexOrchestrator"]

logger = logging.getLogger(__name__)

CONTROL_MESSAGES = (
    OpenSessionMessage,
    CloseSessionMessage,
    ResumeSessionMessage,
    TouchSessionMessage,
)


class DuplexOrchestrator(Orchestrator, DuplexStagePort):
    """Sessions on the machinery of requests: each seam is answered for what a session owns.

    Args:
        plugin: the model's light half.
        make_manager: builds the manager of sessions around this stage port.
        close_helpers: ends what the manager was built on, after all sessions have ended.
        shutdown_s: how long sessions get to end at shutdown.
    """

    def __init__(
        self,
        pipeline: PipelineConfig,
        pools: Sequence[StagePool],
        *,
        figures: EngineFigures,
        max_waiting_bytes: int,
        max_turn_requests: int,
        reserved_places: int,
        plugin: DuplexModelPlugin,
        make_manager: Callable[[DuplexStagePort], DuplexSessionManager],
        close_helpers: Callable[[], object],
        shutdown_s: float,
    ) -> None:
        super().__init__(
            pipeline,
            pools,
            figures=figures,
            max_waiting_bytes=max_waiting_bytes,
            max_turn_requests=max_turn_requests,
            reserved_places=reserved_places,
        )
        self._plugin = plugin
        kind = type(plugin)
        self._decides = kind.decide_output is not OutputInterpreter.decide_output
        self._shows = (
            kind.project_intermediate_output is not OutputInterpreter.project_intermediate_output
        )
        self._complained: set[tuple[str, str]] = set()
        self._close_helpers = close_helpers
        self._shutdown_s = shutdown_s
        self.manager = make_manager(self)

    # The stage port

    @property
    def stage_count(self) -> int:
        """How many stages the pipeline has."""
        return len(self.pools)

    def sampling_defaults(self) -> tuple[Mapping[str, Json], ...]:
        """One mapping per stage.

        Raises:
            RuntimeError: a stage has no live replica.
        """
        for pool in self.pools:
            if not pool.alive:
                raise RuntimeError(f"stage {pool.config.id} has no live replica")
        return tuple(pool.config.sampling for pool in self.pools)

    def ensure_request(self, context: DuplexStageRequestContext) -> None:
        """Register a session's request, or bring it and its stages up to date. Idempotent.

        Raises:
            ValueError: the id belongs to a request without a session.
        """
        self._ensured(context)

    def _ensured(self, context: DuplexStageRequestContext) -> DuplexOrchestratorRequestState:
        request = self._requests.get(context.request_id)
        if request is None:
            request = DuplexOrchestratorRequestState(
                context.request_id, context.session_id, session_owned=True, context=context
            )
            self._refresh(context)
            self._requests[context.request_id] = request
            return request
        if not isinstance(request, DuplexOrchestratorRequestState):
            raise ValueError(f"request {context.request_id} belongs to no session")
        if request.context is not context:
            self._refresh(context)
            request.context = context
        return request

    def _refresh(self, context: DuplexStageRequestContext) -> None:
        stream = self._flow.get(context.session_id)
        if stream is None:
            stream = self._flow.add(stage_sessions(context, self.stage_count))
            stream.version = (context.config_generation, context.sampling_params)
            return
        version = (context.config_generation, context.sampling_params)
        if stream.version == version:
            return
        stream.version = version
        fresh = stage_sessions(context, self.stage_count)
        for pool, old, new in zip(self.pools, stream.sessions, fresh, strict=True):
            if stream.opened and old != new:
                pool.update(new)
        stream.sessions = fresh

    async def submit(self, submission: DuplexStageSubmission) -> DuplexStageSubmissionResult:
        """Give a unit to stage 0; returns once a replica took it.

        Raises:
            StageUnavailableError: not registered, called off meanwhile, or the stage failed.
        """
        context = submission.context
        if context.request_id not in self._requests:
            raise StageUnavailableError("the request is not registered")
        request = self._ensured(context)
        request.resumable = submission.resumable
        if request.submitted and not submission.resumable:
            raise StageUnavailableError("a request of one turn takes one unit")
        fence = context.fence
        replica_id = await self.submit_unit(request, fence.epoch, fence.turn_id, submission.prompt)
        return DuplexStageSubmissionResult(context.request_id, 0, replica_id)

    async def cleanup(self, request_ids: Iterable[str], *, abort: bool = False) -> None:
        """Release what these requests hold; with ``abort`` stop their work first. Idempotent."""
        await self._cleanup_request_ids(tuple(request_ids), abort=abort)

    async def abort_requests(
        self, request_ids: Iterable[str], *, heard_ms: float = 0.0, epoch: int | None = None
    ) -> None:
        """Stop the work of a session's requests; its state in the stages lives on."""
        for request_id in request_ids:
            session_id = request_session_id(request_id)
            if session_id is None:
                continue
            following = (request_epoch(request_id) or 0) + 1 if epoch is None else epoch
            self._flow.abort(session_id, following, heard_ms)

    async def release_session(self, session_id: str) -> None:
        """Close the session's state in every stage. Idempotent."""
        await self._flow.close(session_id)
        self._complained = {pair for pair in self._complained if pair[0] != session_id}

    # Seams

    def _dispatch_message(self, message: Any) -> bool:
        if isinstance(message, CommandMessage):
            self.manager.command(message)
        elif isinstance(message, CONTROL_MESSAGES):
            self.manager.dispatch(message)
        elif isinstance(message, RoomMadeMessage):
            self.manager.room_made(message.session_id)
        elif isinstance(message, RoomAskedMessage):
            self.manager.room_asked(message.session_id)
        else:
            return super()._dispatch_message(message)
        return True

    async def _shutdown_extensions(self) -> None:
        try:
            await self.manager.shutdown(self._shutdown_s)
        finally:
            self._close_helpers()

    def _intercept_stage_output(
        self,
        stage_id: int,
        output: StageOutput,
        request: RequestState,
        metrics: dict[str, Any] | None,
    ) -> bool:
        if not request.session_owned:
            return super()._intercept_stage_output(stage_id, output, request, metrics)
        runner = self.manager.runner(request.stream_id)
        if runner is None:
            return True
        is_last = stage_id + 1 == len(self.pools)
        decision, shown = None, False
        if not is_last and (self._decides or self._shows):
            context = runner.session.output_context(stage_id)
            decision = self._decision(output, context)
            shown = decision is None and self._is_shown(output, context)
        item = StageOutputReceived(output, stage_id, is_last, decision, shown, metrics)
        runner.stage_output(item, _size(output))
        return decision is not None or is_last

    def _on_stream_idle(self, stream: Stream) -> None:
        if stream.stream_id in self._turns:
            super()._on_stream_idle(stream)
            return
        runner = self.manager.runner(stream.stream_id)
        if runner is not None:
            runner.stages_idle(stream.epoch)

    def _on_stream_failed(self, stream_id: str, stage_id: int, error: StageError) -> None:
        if stream_id in self._turns:
            super()._on_stream_failed(stream_id, stage_id, error)
            return
        self.manager.stage_failed(stream_id, StageFailed(error.code, error.message, "session"))

    def _handle_forward_failure(
        self, request: RequestState, next_stage: int, error: Exception
    ) -> bool:
        if not request.session_owned:
            return super()._handle_forward_failure(request, next_stage, error)
        logger.error("no input for stage %d could be made", next_stage, exc_info=error)
        failure = StageFailed(
            "runtime_failed",
            f"stage {next_stage} got no input: {error}",
            "session" if request.resumable else "response",
        )
        self.manager.stage_failed(request.stream_id, failure)
        return True

    def _on_routing_failed(self, request: RequestState, error: Exception) -> None:
        if not request.session_owned:
            super()._on_routing_failed(request, error)
            return
        # What the session would have said is lost: it may not go on as if nothing were missing.
        release = self._cleanup_request_ids((request.request_id,), abort=True, release_owners=True)
        self.spawn(release)

    async def _cleanup_request_ids(
        self, request_ids: Iterable[str], *, abort: bool = False, release_owners: bool = False
    ) -> None:
        ids = tuple(request_ids)
        if release_owners:
            owners = dict.fromkeys(map(request_session_id, ids))
            failure = StageFailed("runtime_failed", "its request failed in the engine", "session")
            for session_id in filter(None, owners):
                # It ends in its own time, and what it holds besides with it.
                self.manager.stage_failed(session_id, failure)
        await super()._cleanup_request_ids(ids, abort=abort)

    def _messages_before(self, stream: Stream) -> Sequence[Mapping[str, Json]]:
        if stream.stream_id in self._turns:
            return super()._messages_before(stream)
        runner = self.manager.runner(stream.stream_id)
        if runner is None:
            return ()
        return runner.session.output_context(0).session.conversation

    # The plugin's say

    def _decision(self, output: StageOutput, context: OutputContext) -> DuplexOutputDecision | None:
        if not self._decides:
            return None
        try:
            decision = self._plugin.decide_output(output, context)
            if decision is None or isinstance(decision, DuplexOutputDecision):
                return decision
            raise TypeError(f"decide_output gave a {type(decision).__name__}")
        except Exception:
            self._complain(output.session_id, "decide_output")
            return None

    def _is_shown(self, output: StageOutput, context: OutputContext) -> bool:
        if not self._shows:
            return False
        try:
            return bool(self._plugin.project_intermediate_output(output, context))
        except Exception:
            self._complain(output.session_id, "project_intermediate_output")
            return False

    def _complain(self, session_id: str, hook: str) -> None:
        """Log a hook's failure, once per session: it may fail with every unit."""
        if (session_id, hook) not in self._complained:
            self._complained.add((session_id, hook))
            logger.exception("the plugin's %s failed", hook)


def _size(output: StageOutput) -> int:
    size = 64 + len(output.text or "")
    return size + len(output.audio.data) if output.audio is not None else size
