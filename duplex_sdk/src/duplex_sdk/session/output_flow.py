"""What the stages produce: projected by the plugin's data plane, then told to the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duplex_sdk.plugin import ModelResult, OutputContext
from duplex_sdk.stage import usage_of

from .effects import Report
from .finish import CUT_SHORT, finish_of
from .inputs import Fault, StageFailed, StageOutputReceived, StagesIdle
from .silence_watch import SilenceWatch
from .stage_metrics import add_figures

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duplex_sdk.stage import StageError, StageOutput

    from .append_queue import Append, AppendQueue
    from .beside_flow import BesideFlow
    from .continuation_flow import ContinuationFlow
    from .response import Response
    from .response_flow import ResponseFlow
    from .state import SessionState
    from .tool_flow import ToolFlow
    from .transcripts import Transcripts

__all__ = ["OutputFlow"]


class OutputFlow:
    """Takes stage outputs in; what belongs to an ended epoch or turn is dropped in silence.

    Args:
        state: the session.
        appends: whether input is still under way to the stage.
        responses: speaks.
        beside: speaks outside the conversation.
        transcripts: what the user said.
        tools: calls of functions.
        continuations: makes a model go on that nobody speaks to.
        end_session: closes the session for a reason.
    """

    __slots__ = (
        "_appends",
        "_asks_release",
        "_beside",
        "_continuations",
        "_end_session",
        "_responses",
        "_state",
        "_tools",
        "_transcripts",
        "silence_watch",
    )

    def __init__(
        self,
        state: SessionState,
        appends: AppendQueue,
        responses: ResponseFlow,
        beside: BesideFlow,
        transcripts: Transcripts,
        tools: ToolFlow,
        continuations: ContinuationFlow,
        *,
        end_session: Callable[[str], None],
    ) -> None:
        self._state = state
        self._appends = appends
        self._responses = responses
        self._beside = beside
        self._transcripts = transcripts
        self._tools = tools
        self._continuations = continuations
        self._end_session = end_session
        able = state.capabilities
        by_turns = not able.supports_core_resumable_request
        self._asks_release = by_turns and able.supports_concurrent_turn_requests
        self.silence_watch = SilenceWatch(
            state, appends, fed=continuations.enabled, ran_out=self._left_unended
        )

    def received(self, item: StageOutputReceived) -> None:
        """One output of one stage."""
        state = self._state
        output = item.output
        if not state.open or output.epoch != state.epoch:
            return
        if not state.requests.accepts_output(output.request_id):
            return
        if state.answers_since is None:
            state.answers_since = state.now
        state.lease.touch(state.now, "model_output")
        beside = self._beside.of_request(output.request_id) if state.beside else None
        if item.metrics or output.data:
            self._note_metrics(item, beside or state.response)
        if output.data:
            self._note_runtime(output)
        if self._asks_release:
            self._note_release(item)
        if output.user_text is not None and beside is None:
            self._transcripts.heard(output)
        if item.is_last or item.decision is not None or item.shown:
            ends_turn = item.is_last or item.decision is not None
            for result in self._project(item, beside):
                if state.epoch != output.epoch or not state.open:
                    return
                if beside is None:
                    self._result(result, output, ends_turn=ends_turn)
                elif beside.id in state.beside:
                    self._result_beside(beside, result, ends_turn=ends_turn)
        elif output.error is not None:
            self._error(output.error, beside)
        self.silence_watch.heard()

    def _note_metrics(self, item: StageOutputReceived, response: Response | None) -> None:
        """What a stage did, and its cost, count for the response it speaks in, else the next."""
        if item.metrics:
            total = self._state.stage_metrics if response is None else response.stage_metrics
            add_figures(total, str(item.stage_id), item.metrics)
        usage = usage_of(item.output) if item.output.data else None
        if usage is not None:
            holder = self._state if response is None else response
            holder.usage = usage if holder.usage is None else holder.usage + usage

    def _note_release(self, item: StageOutputReceived) -> None:
        """Whether the model can begin another turn while the open response still speaks."""
        state, response = self._state, self._state.response
        if response is None or item.output.request_id != state.requests.active_id:
            return
        with state.contained("release_concurrent_turn_requests"):
            context = self.context(item.stage_id)
            plugin = state.plugin
            if plugin.release_concurrent_turn_requests(item.output, context):
                # With no stage that may go on, nothing could drain.
                response.releases = bool(plugin.draining_stage_ids(len(state.pipeline.stages)))

    def _note_runtime(self, output: StageOutput) -> None:
        state = self._state
        with state.contained("runtime_config_after_model_output"):
            changed = state.plugin.runtime_config_after_model_output(
                state.runtime_config, output.data
            )
            if changed is not None:
                state.runtime_config = changed
                state.publish_config()

    def _project(
        self, item: StageOutputReceived, beside: Response | None
    ) -> tuple[ModelResult, ...]:
        """What the output says, in the engine's words; a data plane that fails, fails it."""
        state = self._state
        try:
            context = state.plugin.data_plane_context(self.context(item.stage_id, beside))
            results = tuple(
                state.plugin.data_plane.project(
                    item.output, state=state.model_state, context=context
                )
            )
            for result in results:
                if not isinstance(result, ModelResult):
                    raise TypeError(f"project must yield ModelResult, got {type(result).__name__}")
            return results
        except Exception as error:
            message = f"the data plane failed: {error!r}"
            self._fail("runtime_data_plane_stream_failed", message, beside)
            return ()

    def context(self, stage_id: int, beside: Response | None = None) -> OutputContext:
        """Where an output of this stage stands now; ``beside``: it is outside the conversation."""
        state = self._state
        response = beside or state.response
        stages = state.pipeline.stages
        return OutputContext(
            stage=stages[stage_id],
            stage_id=stage_id,
            is_last=stage_id == len(stages) - 1,
            fence=state.fence,
            session=state.view(),
            response_id=None if response is None else response.id,
            auto_responds=state.auto_responds,
        )

    # results

    def _result(self, result: ModelResult, output: StageOutput, *, ends_turn: bool) -> None:
        state = self._state
        if result.error is not None:
            self._error(result.error)
            return
        if state.muted:
            # A model that cannot be stopped: the rest of what it was saying is nobody's.
            state.muted = not (result.listen or result.end_of_turn)
            self._go_on()
            return
        if self._of_completed_turn(output):
            return
        if result.tool_call is not None:
            self._tools.called(result.tool_call)
        if result.text or result.audio is not None:
            response = state.response or self._responses.open()
            self._say(response, result)
            if response.full and state.response is response:
                self.silence(response)
                self._responses.complete(response, finish=CUT_SHORT)
                return
        if result.end_of_turn and ends_turn:
            self._end_turn(output.request_id, output.turn_id, finish=finish_of(result))
            return
        if result.listen:
            self._listen(result, output)
        self._go_on()

    def _result_beside(self, response: Response, result: ModelResult, *, ends_turn: bool) -> None:
        """The same of a response outside the conversation, which has no say in that."""
        if result.error is not None:
            self._error(result.error, response)
            return
        if result.tool_call is not None:
            self._tools.called(result.tool_call, in_conversation=response.in_conversation)
        try:
            self._beside.take(response, result, ends_turn=ends_turn)
        except ValueError as error:
            self._fail(
                "runtime_data_plane_stream_failed",
                f"the model's audio is no audio: {error}",
                response,
            )

    def _go_on(self) -> None:
        """The model is not done: it needs input to go on."""
        if self._state.response is not None or self._continuations.awaited:
            self._continuations.wanted()

    def _of_completed_turn(self, output: StageOutput) -> bool:
        """Whether the turn is over that this belongs to: it opens, feeds and ends nothing.

        A model that is asked with every unit says the next thing in units that were under way
        when its turn ended: what comes after an end is of the turn after it.
        """
        if self._state.auto_responds:
            return False
        response = self._state.response
        current = self._state.turn_id if response is None else response.turn_id
        return output.turn_id < current

    def _say(self, response: Response, result: ModelResult) -> None:
        try:
            self._responses.say(response, result)
        except ValueError as error:
            self._fail(
                "runtime_data_plane_stream_failed", f"the model's audio is no audio: {error}"
            )

    def _listen(self, result: ModelResult, output: StageOutput) -> None:
        response = self._state.response
        reason = result.reason or self._listen_reason(result)
        extra: dict[str, Any] = {"buffering": True} if result.buffering else {}
        if response is None:
            self._responses.listen(reason, extra=extra)
        elif not response.item_open and not result.buffering and not self._appends.answering:
            self._end_turn(output.request_id, output.turn_id, listened=True, reason=reason)

    def _listen_reason(self, result: ModelResult) -> str:
        if result.buffering:
            return "buffering"
        return "forced_listen" if self._state.told_to_listen else "model_listen"

    def limit_reached(self) -> None:
        """The model had all the silence it may have and does not end: its turn is ended for it."""
        state = self._state
        response = state.response
        if response is None:
            return
        self._give_up_turn(response)
        self._responses.break_off(response, "continuation_limit")

    def _give_up_turn(self, response: Response) -> None:
        """What is still said of this turn is nobody's."""
        state = self._state
        request_id = state.requests.active_id
        if request_id is not None and not state.auto_responds:
            state.requests.finish(request_id)
        state.turn_id = max(state.turn_id, response.turn_id + 1)

    def silence(self, response: Response) -> None:
        """Give a turn up whose response was ended from outside, also of a model that goes on."""
        self._give_up_turn(response)
        self._state.muted = self._state.native

    def _end_turn(
        self,
        request_id: str,
        turn_id: int,
        *,
        listened: bool = False,
        reason: str = "",
        finish: str = "",
    ) -> None:
        state = self._state
        if not state.auto_responds:
            state.requests.finish(request_id)
            state.close_stream(request_id)
            self._release_ephemeral(request_id)
        response = state.response
        state.turn_id = max(state.turn_id, turn_id + 1)
        if response is not None:
            silent = listened or not response.item_open
            self._responses.complete(response, listened=silent, reason=reason, finish=finish)

    def _release_ephemeral(self, request_id: str) -> None:
        """A request that served one turn ends with it."""
        state = self._state
        if state.capabilities.supports_core_resumable_request:
            return
        if state.requests.release(request_id):
            state.release_requests((request_id,))

    def idle(self, item: StagesIdle) -> None:
        """All stages fell silent: a turn-mode response that is open has ended, said or not.

        A model that speaks from unit to unit is silent between any two of them, as long as the
        session gives it units. What it says beside the conversation, it says unasked from its
        beginning to its end.
        """
        state = self._state
        response = state.response
        if item.epoch != state.epoch or item.seq < state.sequence.seq or not state.open:
            return
        self._beside.idle()
        self.silence_watch.idle(item)
        if response is None or self._appends.answering:
            return
        if state.auto_responds and self._continuations.enabled:
            return
        if self._continuations.enabled:
            self._continuations.wanted()
            return
        request_id = state.requests.active_id
        if request_id is not None:
            self._end_turn(request_id, response.turn_id)

    # failures

    def _left_unended(self) -> None:
        self._fail(
            "runtime_data_plane_stream_failed", "a stage fell silent before its answer had ended"
        )

    def _error(self, error: StageError, beside: Response | None = None) -> None:
        if error.scope == "event":
            self._state.fail(error.code, error.message)
        elif error.scope == "response":
            self._fail(error.code, error.message, beside)
        else:
            self.stage_failed(StageFailed(error.code, error.message))

    def _fail(self, code: str, message: str, beside: Response | None = None) -> None:
        """One error, and the response it belongs to fails with it: the open one, or ``beside``."""
        state = self._state
        state.fail(code, message)
        if beside is not None:
            self._beside.fail(beside, Fault(code, message))
            return
        response = state.response
        if response is None:
            return
        self._give_up_turn(response)
        self._responses.fail(response, Fault(code, message))

    def stage_failed(self, item: StageFailed) -> None:
        """A stage failed for this session: error, failed ending, and the end if it cannot go on."""
        if not self._state.open:
            return
        self._fail(item.code, item.message)
        if item.scope == "session":
            self._beside.fail_all(Fault(item.code, item.message))
            self._end_session("runtime_failed")

    def append_failed(self, failed: Sequence[Append], fault: Fault) -> None:
        """Units did not reach the model: what they were to be answered with fails too."""
        state = self._state
        if all(append.piece.kind == "discard" for append in failed):
            state.do(Report("warning", f"input could not be taken back: {fault.message}"))
            return
        state.fail(fault.code, fault.message)
        if any(append.of_open_turn for append in failed):
            state.turn_input.failed = True
        response = state.response
        needed = any(append.answers or append.continuation for append in failed)
        if response is not None and needed:
            self._responses.fail(response, fault)
