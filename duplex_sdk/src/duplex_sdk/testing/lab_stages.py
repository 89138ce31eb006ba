"""The stages of one session on a bench: the way of outputs through a pipeline, without a loop.

What the engine's orchestrator does for all sessions, for one: routing, the plugin's say, credit
between stages, idleness. It takes no time and owns none.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from duplex_sdk.session import DuplexEngineSession, inputs
from duplex_sdk.stage import (
    Json,
    StageError,
    StageInputContext,
    StageOutput,
    StageSession,
    UnitRequest,
)

if TYPE_CHECKING:
    from duplex_sdk.plugin import (
        DuplexModelPlugin,
        DuplexOutputDecision,
        DuplexStageRequestContext,
        DuplexStageSubmission,
    )
    from duplex_sdk.stage import PipelineConfig, StagePrompt
    from duplex_sdk.stage.host import StageHost

__all__ = ["LabStages"]

logger = logging.getLogger(__name__)

CREDIT = 2
"""So many units of a session may be with a stage: one being stepped, one waiting."""


class LabStages:
    """The stages of one session, as the engine runs them.

    Args:
        session: whose they are.
        plugin: asked where outputs go.
        pipeline: the stages.
        hosts: one per stage, their models loaded.
        feed: takes what happened, in order.

    Attributes:
        failures: what the models could not do, in order, however small.
    """

    def __init__(
        self,
        session: DuplexEngineSession,
        *,
        plugin: DuplexModelPlugin,
        pipeline: PipelineConfig,
        hosts: Sequence[StageHost],
        feed: Callable[[inputs.Input], None],
    ) -> None:
        self._session = session
        self._plugin = plugin
        self._pipeline = pipeline
        self._hosts = tuple(hosts)
        self._feed = feed
        self._last = len(self._hosts) - 1
        self.failures: list[StageError] = []
        self._context: DuplexStageRequestContext | None = None
        self._epoch = 0
        self._seq = 0
        self._busy = False
        self._idle = [True] * len(self._hosts)
        self._with_stage = [0] * len(self._hosts)
        self._waiting: list[deque[UnitRequest]] = [deque() for _ in self._hosts]
        self._memo: dict[tuple[str, int], dict[str, Json]] = {}

    # what the session asks for

    def submit(self, submission: DuplexStageSubmission) -> None:
        """Give stage 0 a unit; the first one opens every stage."""
        context = submission.context
        self._tell(context)
        self._epoch = max(self._epoch, context.fence.epoch)
        self._hand_over(0, self._unit(context, submission.prompt))

    def cancel(self, epoch: int, heard_ms: float) -> None:
        """Stop all work; ``epoch`` begins."""
        self._epoch = max(self._epoch, epoch)
        self._memo.clear()
        for waiting in self._waiting:
            waiting.clear()
        for host in self._hosts:
            host.cancel(self._session.session_id, epoch, heard_ms)
            host.hold(self._session.session_id, False)

    def close(self) -> None:
        """End the session in every stage. Idempotent."""
        self._context = None
        for waiting in self._waiting:
            waiting.clear()
        for host in self._hosts:
            host.close(self._session.session_id)

    @property
    def open_count(self) -> int:
        """In how many stages the session is open."""
        return sum(host.session_count for host in self._hosts)

    @property
    def close_failures(self) -> int:
        """How many ``close`` calls of the models raised."""
        return sum(host.close_failures for host in self._hosts)

    def _tell(self, context: DuplexStageRequestContext) -> None:
        """Open the stages, or bring them up to date."""
        before, self._context = self._context, context
        if before is context:
            return
        for index, host in enumerate(self._hosts):
            told = _told(context, index)
            if before is None:
                host.open(told)
            elif told != _told(before, index):
                host.update(told)

    def _unit(self, context: DuplexStageRequestContext, prompt: StagePrompt) -> UnitRequest:
        self._seq += 1
        fence = context.fence
        return UnitRequest(
            context.session_id,
            context.request_id,
            fence.epoch,
            fence.turn_id,
            self._seq,
            prompt,
        )

    def _hand_over(self, index: int, unit: UnitRequest) -> None:
        self._busy = True
        self._idle[index] = False
        self._with_stage[index] += 1
        self._hosts[index].units([unit])

    # time

    def next_due(self) -> float | None:
        """When ``step`` has something to do; None: not before a unit comes."""
        if not self._last:
            return self._hosts[0].next_due()
        due = [at for at in (host.next_due() for host in self._hosts) if at is not None]
        return min(due, default=None)

    def step(self, now: float) -> bool:
        """Let each stage do what is due; false when none had anything to do."""
        worked = False
        for index, host in enumerate(self._hosts):
            due = host.next_due()
            if due is not None and due <= now:
                self._step(index)
                worked = True
        return worked

    def _step(self, index: int) -> None:
        result = self._hosts[index].step()
        accepted = self._session.accepted_seq
        for output in result.outputs:
            if output.error is not None:
                self.failures.append(output.error)
            self._route(index, output)
        for _, error in result.failed:
            self.failures.append(error)
            self._feed(inputs.StageFailed(error.code, error.message))
        self._with_stage[index] = max(0, self._with_stage[index] - len(result.taken))
        self._hand_on(index)
        if result.idle:
            self._idle[index] = not self._with_stage[index]
        if self._busy and all(self._idle) and not any(self._waiting):
            self._busy = False
            self._feed(inputs.StagesIdle(self._session.epoch, accepted))

    # outputs

    def _route(self, index: int, output: StageOutput) -> None:
        if index == self._last:
            self._feed(inputs.StageOutputReceived(output, index))
            return
        decision, shown = self._plugins_say(index, output)
        self._feed(inputs.StageOutputReceived(output, index, False, decision, shown))
        # What was just told may have ended the epoch of the output, or the session.
        current = self._context is not None and output.epoch >= self._epoch
        if current and decision is None and output.error is None:
            self._forward(index, output)

    def _plugins_say(
        self, index: int, output: StageOutput
    ) -> tuple[DuplexOutputDecision | None, bool]:
        """Whether the client gets an output of a stage in the middle; a hook that fails: no."""
        context = self._session.output_context(index)
        try:
            decision = self._plugin.decide_output(output, context)
            if decision is not None:
                return decision, False
            return None, bool(self._plugin.project_intermediate_output(output, context))
        except Exception:
            logger.exception("the plugin's say about an output failed")
            return None, False

    def _forward(self, index: int, output: StageOutput) -> None:
        try:
            prompts = tuple(self._prompts(index, output))
        except Exception as error:
            message = f"stage {index + 1} got no input: {error!r}"
            self._feed(inputs.StageFailed("runtime_failed", message))
            return
        for prompt in prompts:
            self._waiting[index + 1].append(self._forwarded(output, prompt))
        self._hand_on(index + 1)
        if self._waiting[index + 1]:
            self._hosts[index].hold(output.session_id, True)

    def _prompts(self, index: int, output: StageOutput) -> Iterator[StagePrompt]:
        assert self._context is not None, "the session is closed"
        context = StageInputContext(
            stage=self._pipeline.stages[index],
            config=self._context.session_config,
            messages=self._session.output_context(0).session.conversation,
            memo=self._memo.setdefault((output.request_id, index), {}),
        )
        yield from self._pipeline.stage_input(output, context)

    def _forwarded(self, output: StageOutput, prompt: StagePrompt) -> UnitRequest:
        self._seq += 1
        return UnitRequest(
            output.session_id, output.request_id, output.epoch, output.turn_id, self._seq, prompt
        )

    def _hand_on(self, index: int) -> None:
        """What waits for a stage goes to it, as far as it has room."""
        waiting = self._waiting[index]
        if not waiting:
            return
        while waiting and self._with_stage[index] < CREDIT:
            self._hand_over(index, waiting.popleft())
        if not waiting:
            self._hosts[index - 1].hold(self._session.session_id, False)


def _told(context: DuplexStageRequestContext, index: int) -> StageSession:
    """The session as a stage is told of it."""
    sampling: Sequence[Mapping[str, Json]] = context.sampling_params
    return StageSession(
        context.session_id,
        context.session_config,
        context.runtime_config,
        sampling[index] if index < len(sampling) else {},
        context.seed,
    )
