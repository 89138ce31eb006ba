"""``Orchestrator``: requests that come with a whole conversation and end with one answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from duplex_sdk.stage import StageError, StageOutput, StageSession, usage_of

from duplex_server.stages import StageUnavailableError

from .errors import RequestFailedError
from .orchestrator_base import OrchestratorBase
from .streams import RequestState, Stream, prompt_size
from .turn_requests import AbortRequest, AddRequest, AnswerPiece, TurnRequestState, UpdateRequest

if TYPE_CHECKING:
    from duplex_sdk.stage import PipelineConfig, StagePrompt

    from duplex_server.stages import StagePool

    from .figures import EngineFigures

__all__ = ["Orchestrator", "OrchestratorBase"]

logger = logging.getLogger(__name__)


class Orchestrator(OrchestratorBase):
    """The turn-based one: each request has state in the stages of its own, gone with its answer.

    Args:
        max_turn_requests: how many may be under way at once.
        reserved_places: places in each stage that requests leave free.
    """

    def __init__(
        self,
        pipeline: PipelineConfig,
        pools: Sequence[StagePool],
        *,
        figures: EngineFigures,
        max_waiting_bytes: int,
        max_turn_requests: int,
        reserved_places: int = 0,
    ) -> None:
        super().__init__(pipeline, pools, figures=figures, max_waiting_bytes=max_waiting_bytes)
        self._max_turn_requests = max_turn_requests
        self._reserved_places = reserved_places
        self._turns: dict[str, TurnRequestState] = {}

    @property
    def turn_request_count(self) -> int:
        """Requests that are under way or whose state in the stages is not closed yet."""
        return len(self._turns)

    @property
    def turn_request_places(self) -> int:
        """How many requests may be under way at once; 0: sessions need every place there is."""
        places = [pool.capacity for pool in self.pools if pool.capacity is not None]
        spare = (each - self._reserved_places for each in places)
        return max(0, min([self._max_turn_requests, *spare]))

    # Seams

    def _dispatch_message(self, message: Any) -> bool:
        if isinstance(message, AddRequest):
            self._add(message)
        elif isinstance(message, UpdateRequest):
            self._update(message)
        elif isinstance(message, AbortRequest):
            self._abort(message.request_id)
        else:
            return False
        return True

    def _deliver_output(self, output: StageOutput, request: RequestState, is_last: bool) -> None:
        if not isinstance(request, TurnRequestState) or request.ended:
            return
        if output.error is not None:
            self._note_error(request, output.error)
            return
        if output.tool_call is not None:
            # Whichever stage makes it: no stage after that one has anything to do with it.
            request.deliver(AnswerPiece(tool_call=output.tool_call))
        usage = usage_of(output) if output.data else None
        if usage is not None:
            request.deliver(AnswerPiece(usage=usage))
        if is_last:
            if output.text or output.audio is not None:
                request.deliver(AnswerPiece(output.text or "", output.audio))
            if output.end_of_turn:
                self._deliver_reason(request, output)
                self._end(request)

    @staticmethod
    def _deliver_reason(request: TurnRequestState, output: StageOutput) -> None:
        reason = output.data.get("finish_reason")
        if isinstance(reason, str) and reason:
            request.deliver(AnswerPiece(finish_reason=reason))

    def _on_routing_failed(self, request: RequestState, error: Exception) -> None:
        if not isinstance(request, TurnRequestState):
            return super()._on_routing_failed(request, error)
        if not isinstance(error, RequestFailedError):
            error = RequestFailedError("runtime_failed", f"the request failed: {error}")
        self._end(request, error)

    def _on_stream_idle(self, stream: Stream) -> None:
        # Said or not, the turn is over when no stage has anything to do for it.
        request = self._turns.get(stream.stream_id)
        if request is not None and request.whole and not request.submitting:
            self._end(request)

    def _on_stream_failed(self, stream_id: str, stage_id: int, error: StageError) -> None:
        request = self._turns.get(stream_id)
        if request is not None:
            self._end(request, RequestFailedError(error.code, error.message))

    # Requests

    def _add(self, message: AddRequest) -> None:
        refusal = self._refusal(message)
        if refusal is not None:
            message.sink.end(refusal)
            return
        request_id = message.request_id
        request = TurnRequestState(request_id, request_id, sink=message.sink)
        self._requests[request_id] = self._turns[request_id] = request
        stream = self._flow.add(self._stage_sessions(message))
        stream.messages = message.before
        self._extend(request, message.prompt)

    def _update(self, message: UpdateRequest) -> None:
        request = self._turns.get(message.request_id)
        if request is None or request.ended:
            return
        waiting = sum(prompt_size(prompt) for prompt in request.unsent)
        if request.whole:
            over = RequestFailedError("invalid_argument", "its turn was said to be whole")
            self._end(request, over, abort=True)
        elif waiting + prompt_size(message.prompt) > self._flow.max_waiting_bytes:
            behind = RequestFailedError("resource_exhausted", "the model does not keep up")
            self._end(request, behind, abort=True)
        else:
            self._extend(request, message.prompt)

    def _extend(self, request: TurnRequestState, prompt: StagePrompt) -> None:
        request.unsent.append(prompt)
        request.whole = prompt.final
        if not request.submitting:
            request.submitting = True
            self.spawn(self._submit_turn(request))

    def _refusal(self, message: AddRequest) -> RequestFailedError | None:
        if self._flow.get(message.request_id) is not None or message.request_id in self._requests:
            return RequestFailedError("invalid_argument", "this request is under way already")
        if message.prompt.audio is not None and not self.pipeline.spoken_requests:
            return RequestFailedError("unsupported", "this model answers written requests only")
        if message.sampling and len(message.sampling) != len(self.pools):
            return RequestFailedError("invalid_argument", "sampling has not one part per stage")
        if len(self._turns) >= self.turn_request_places:
            return RequestFailedError("resource_exhausted", "too many requests at once")
        return None

    def _stage_sessions(self, message: AddRequest) -> tuple[StageSession, ...]:
        sampling = message.sampling or tuple(pool.config.sampling for pool in self.pools)
        return tuple(
            StageSession(message.request_id, message.config, message.runtime, each, message.seed)
            for each in sampling
        )

    async def _submit_turn(self, request: TurnRequestState) -> None:
        try:
            while request.unsent and not request.ended:
                await self.submit_unit(request, 0, 1, request.unsent.popleft())
        except StageUnavailableError as error:
            self._end(request, RequestFailedError("resource_exhausted", str(error)))
        except Exception as error:
            logger.exception("a request could not be submitted")
            self._end(request, RequestFailedError("runtime_failed", str(error)))
        finally:
            request.submitting = False

    def _abort(self, request_id: str) -> None:
        request = self._turns.get(request_id)
        if request is not None:
            aborted = RequestFailedError("request_aborted", "the request was aborted")
            self._end(request, aborted, abort=True)

    def _note_error(self, request: TurnRequestState, error: StageError) -> None:
        if error.scope == "event":
            logger.warning("request %s: %s", request.request_id, error.message)
        else:
            self._end(request, RequestFailedError(error.code, error.message), abort=True)

    def _end(
        self,
        request: TurnRequestState,
        error: RequestFailedError | None = None,
        *,
        abort: bool = False,
    ) -> None:
        """Deliver nothing more, close its state in the stages, then tell its end; once."""
        if not request.ended:
            request.ended = True
            self.spawn(self._close_turn(request, error, abort=abort))

    async def _close_turn(
        self, request: TurnRequestState, error: RequestFailedError | None, *, abort: bool
    ) -> None:
        try:
            await self._cleanup_request_ids((request.request_id,), abort=abort)
            await self._flow.close(request.stream_id)
        finally:
            # Told after that: who asks again at once must find the place free.
            self._turns.pop(request.request_id, None)
            request.sink.end(error)
