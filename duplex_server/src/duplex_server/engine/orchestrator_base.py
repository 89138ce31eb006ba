"""Requests on their way through the stages: routing, forwarding, abort, cleanup.

This is the machinery that every kind of request shares; it offers seams for what differs.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from duplex_sdk.stage import StageError, StageInputContext, StageOutput, UnitRequest

from duplex_server.stages import StageListener, StageUnavailableError

from .stage_flow import StageFlow
from .streams import RequestState, Stream

if TYPE_CHECKING:
    from duplex_sdk.stage import Json, PipelineConfig, StagePrompt
    from duplex_sdk.stage.host import StepReport

    from duplex_server.stages import StagePool

    from .figures import EngineFigures

__all__ = ["OrchestratorBase"]

logger = logging.getLogger(__name__)


class OrchestratorBase(StageListener):
    """Everything on the engine's loop that has to do with stages.

    Args:
        pipeline: the stages' order and how one's output becomes the next one's input.
        pools: one per stage, in order.
        figures: counters for people.
        max_waiting_bytes: how much of one stream may wait between stages.
    """

    def __init__(
        self,
        pipeline: PipelineConfig,
        pools: Sequence[StagePool],
        *,
        figures: EngineFigures,
        max_waiting_bytes: int,
    ) -> None:
        self.pipeline = pipeline
        self.pools = tuple(pools)
        self.figures = figures
        self._requests: dict[str, RequestState] = {}
        self._flow = StageFlow(
            pools, max_waiting_bytes=max_waiting_bytes, on_submitted=self._note_submitted
        )
        self._tasks: set[asyncio.Task[None]] = set()

    # Life

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop``, then shut extensions down. Stages are stopped by the engine."""
        background = [self.spawn(coroutine) for coroutine in self._background_tasks()]
        try:
            await stop.wait()
        finally:
            try:
                await _cancel(background)
                await self._shutdown_extensions()
            finally:
                # What ends requests has gone on until here.
                await _cancel(tuple(self._tasks))

    def dispatch(self, message: Any) -> None:
        """Take one message of the callers' side."""
        if not self._dispatch_message(message):
            logger.error("nobody takes a %s", type(message).__name__)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine of this engine, kept until it ends."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Seams

    @abstractmethod
    def _dispatch_message(self, message: Any) -> bool:
        """Take a message; False: it is none of ours."""

    def _background_tasks(self) -> list[Coroutine[Any, Any, None]]:
        """What runs beside the requests until the end; asked for once."""
        return []

    async def _shutdown_extensions(self) -> None:
        """End what was built on the stages, while they still work; background tasks have ended."""

    def _on_stage_submitted(
        self, stage_id: int, request: RequestState, replica_id: int, unit: UnitRequest
    ) -> None:
        """A stage took a unit, whether of a caller or of the stage before."""

    def _intercept_stage_output(
        self,
        stage_id: int,
        output: StageOutput,
        request: RequestState,
        metrics: dict[str, Any] | None,
    ) -> bool:
        """See an output before it is routed on; True: it goes no further."""
        return False

    def _handle_forward_failure(
        self, request: RequestState, next_stage: int, error: Exception
    ) -> bool:
        """The next stage's input could not be made; False: nobody minds, so it is raised."""
        return False

    def _deliver_output(self, output: StageOutput, request: RequestState, is_last: bool) -> None:
        """An output that nobody intercepted, of a request that no session owns."""

    def _on_routing_failed(self, request: RequestState, error: Exception) -> None:
        """An output of the request could be neither delivered nor forwarded."""

    def _on_stream_idle(self, stream: Stream) -> None:
        """All stages of the stream are idle, once per change."""

    def _on_stream_failed(self, stream_id: str, stage_id: int, error: StageError) -> None:
        """A stage can no longer serve the stream."""

    def _messages_before(self, stream: Stream) -> Sequence[Mapping[str, Json]]:
        return stream.messages

    # Requests

    async def submit_unit(
        self, request: RequestState, epoch: int, turn_id: int, prompt: StagePrompt
    ) -> int:
        """Give stage 0 a unit, waiting for credit; returns the replica's id.

        Raises:
            StageUnavailableError: no replica can take it.
            RequestCancelledError: aborted while it waited, or of an epoch that is over.
        """
        stream = self._flow.get(request.stream_id)
        if stream is None:
            raise StageUnavailableError("the request was closed")
        if not self._flow.begin(stream, epoch):
            await self._flow.room(stream, epoch)
        # Its number is given now: what waits may yet be called off.
        unit = stream.unit(0, request.request_id, turn_id, prompt)
        replica_id = self._flow.hand_over(0, stream, unit)
        request.submitted = True
        return replica_id

    def _note_submitted(self, stage_id: int, unit: UnitRequest, replica_id: int) -> None:
        request = self._requests.get(unit.request_id)
        if request is not None:
            request.meter(stage_id, asyncio.get_running_loop().time()).units += 1
            self._on_stage_submitted(stage_id, request, replica_id, unit)

    async def _cleanup_request_ids(
        self, request_ids: Iterable[str], *, abort: bool = False, release_owners: bool = False
    ) -> None:
        """Forget requests; with ``abort`` their work stops first. Idempotent.

        ``release_owners``: whoever owns one is to end as well; here nobody owns any.
        """
        for request_id in request_ids:
            request = self._requests.pop(request_id, None)
            if request is None or not abort:
                continue
            stream = self._flow.get(request.stream_id)
            if stream is not None:
                self._flow.abort(request.stream_id, stream.epoch + 1, 0.0)

    # What stages tell

    def on_outputs(self, stage_id: int, replica_id: int, outputs: Sequence[StageOutput]) -> None:
        """Route outputs; one that fails ends nothing but its own request."""
        now = asyncio.get_running_loop().time()
        for output in outputs:
            request = self._requests.get(output.request_id)
            stream = self._flow.get(output.session_id)
            if request is None or stream is None or output.epoch < stream.epoch:
                continue
            try:
                self._route_output(stage_id, output, request, stream, now)
            except Exception as error:
                logger.exception("routing an output of stage %d failed", stage_id)
                self._on_routing_failed(request, error)

    def _route_output(
        self, stage_id: int, output: StageOutput, request: RequestState, stream: Stream, now: float
    ) -> None:
        metrics = request.metered(stage_id, output, now)
        if self._intercept_stage_output(stage_id, output, request, metrics):
            return
        is_last = stage_id + 1 == len(self.pools)
        if not request.session_owned:
            self._deliver_output(output, request, is_last)
        if not is_last and output.error is None:
            self._forward(stage_id, output, request, stream)

    def _forward(
        self, stage_id: int, output: StageOutput, request: RequestState, stream: Stream
    ) -> None:
        following = stage_id + 1
        context = StageInputContext(
            stage=self.pools[stage_id].config,
            config=stream.sessions[stage_id].config,
            messages=self._messages_before(stream),
            memo=request.memo.setdefault(stage_id, {}),
        )
        try:
            for prompt in self.pipeline.stage_input(output, context):
                unit = stream.unit(following, request.request_id, output.turn_id, prompt)
                self._flow.forward(following, stream, unit)
        except Exception as error:
            if not self._handle_forward_failure(request, following, error):
                raise

    def on_taken(self, stage_id: int, session_id: str, epoch: int, seq: int) -> None:
        """A stage has room again."""
        self._flow.taken(stage_id, session_id)

    def on_idle(self, stage_id: int, session_id: str) -> None:
        """See whether all stages of the stream are idle now."""
        stream = self._flow.rested(session_id)
        if stream is not None:
            self._on_stream_idle(stream)

    def on_failed(self, stage_id: int, session_id: str, error: StageError) -> None:
        """Tell the owner; whoever waits for credit waits for nothing."""
        self._flow.failed(session_id)
        self._on_stream_failed(session_id, stage_id, error)

    def on_report(self, stage_id: int, replica_id: int, report: StepReport) -> None:
        """Count a step."""
        self.figures.count_step(stage_id, report)

    # For people

    @property
    def request_count(self) -> int:
        """Requests under way."""
        return len(self._requests)

    @property
    def stream_count(self) -> int:
        """Streams with state in the stages, or about to have it."""
        return len(self._flow)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
