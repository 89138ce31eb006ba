"""The flows of one session, and what one tells another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .append_queue import Append, AppendQueue
from .beside_flow import BesideFlow
from .cancel_flow import CancelFlow
from .close_flow import CloseFlow
from .commit_flow import CommitFlow
from .commit_items import CommitItems
from .continuation_flow import ContinuationFlow
from .create_flow import CreateFlow
from .floor import Floor
from .input_buffer import InputBuffer
from .intake import Intake
from .item_audio import ItemAudioFlow
from .item_flow import ItemFlow
from .late_flow import LateFlow
from .open_turn import OpenTurn
from .output_flow import OutputFlow
from .overflow_flow import OverflowFlow
from .response_flow import ResponseFlow
from .tool_flow import ToolFlow
from .transcripts import Transcripts
from .update_flow import UpdateFlow
from .utterance import Utterance
from .waiting_line import WaitingLine

if TYPE_CHECKING:
    from duplex_sdk.protocol.duplex import AppendAudio

    from .inputs import AudioDecoded, Fault
    from .state import SessionState

__all__ = ["Flows"]


class Flows:
    """Makes the flows and joins them: each knows the ones below it, the rest goes by callbacks."""

    __slots__ = (
        "_state",
        "appends",
        "beside",
        "buffer",
        "cancels",
        "closing",
        "commits",
        "continuations",
        "creates",
        "floor",
        "intake",
        "items",
        "lateness",
        "line",
        "open_turn",
        "outputs",
        "overflow",
        "responses",
        "updates",
    )

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self.buffer = buffer = InputBuffer(state.model_state.audio_buffer, state.input_bytes, 0)
        self.appends = AppendQueue(
            state, buffer, accepted=self._append_accepted, failed=self._append_failed
        )
        self.responses = ResponseFlow(state, ended=self._response_ended)
        self.beside = BesideFlow(state, self.appends, self.responses)
        self.continuations = ContinuationFlow(
            state, buffer, self.appends, limit_reached=self._limit_reached
        )
        self.floor = Floor(state, self.appends)
        self.line = WaitingLine(state, self.appends, heard=self._heard)
        transcripts, tools = Transcripts(state), ToolFlow(state)
        self._make_input(transcripts, tools)
        self._make_output(transcripts, tools)

    def _make_input(self, transcripts: Transcripts, tools: ToolFlow) -> None:
        state, buffer, utterance = self._state, self.buffer, Utterance(self._state)
        self.open_turn = OpenTurn(
            state,
            buffer,
            self.appends,
            self.line,
            self.floor,
            utterance,
            hear_committed=lambda: self.commits.hear_retained(),
        )
        self.intake = Intake(
            state,
            buffer,
            self.floor,
            self.open_turn,
            utterance,
            self.responses,
            barge_in=self._barge_in_by_speech,
            turn_ended=self._turn_ended,
        )
        self.commits = CommitFlow(
            state,
            buffer,
            self.appends,
            self.line,
            self.floor,
            self.open_turn,
            CommitItems(state, utterance, transcripts),
            self.responses,
            self.beside,
            transcripts,
        )
        self.creates = CreateFlow(
            state,
            self.appends,
            self.line,
            self.floor,
            self.commits,
            self.responses,
            self.beside,
            self.continuations,
        )
        spoken = ItemAudioFlow(state, self.line, self.commits)
        self.items = ItemFlow(
            state,
            tools,
            spoken,
            result_accepted=self._result_accepted,
            deleted=self.open_turn.forget_item,
        )
        self.updates = UpdateFlow(state, buffer, self.line, self.intake)

    def _make_output(self, transcripts: Transcripts, tools: ToolFlow) -> None:
        state, responses, beside = self._state, self.responses, self.beside
        self.cancels = CancelFlow(
            state,
            responses,
            beside,
            self.open_turn,
            transcripts,
            take_held=self.line.take_answers,
        )
        self.closing = CloseFlow(state, self.buffer, self.appends, self.line, responses, beside)
        self.outputs = OutputFlow(
            state,
            self.appends,
            responses,
            beside,
            transcripts,
            tools,
            self.continuations,
            end_session=self.closing.close,
        )
        self.lateness = LateFlow(state, self.appends, end_session=self.closing.close)
        self.overflow = OverflowFlow(
            state,
            responses,
            beside,
            turn_failed=self.outputs.silence,
            end_session=self._end_with_details,
        )

    def go_on(self) -> None:
        """Do what this step caused, then what was waiting for it."""
        state = self._state
        while True:
            while state.followups:
                state.followups.pop(0)()
            self.line.advance()
            now, due = state.now, self.continuations.scheduler.deadline
            late = self.lateness
            if now >= late.looks_at or (late.lags and self.appends.oldest is None):
                late.look()
            if due is not None and now >= due:
                self.continuations.look()
            if self.outputs.silence_watch.deadline is not None:
                self.outputs.silence_watch.look()
            if state.turn_input.held_start is not None:
                self.intake.settle_speech()
            if not state.followups:
                return

    def _append_accepted(self, append: Append) -> None:
        state = self._state
        assert append.context is not None
        try:
            state.plugin.data_plane.begin_request(
                append.context.request_id, state=state.model_state
            )
        except Exception as error:
            state.hook_failed("begin_request", error)
        self.lateness.accepted(append)
        if append.beside is not None:
            self.beside.settled(append.beside)
            return
        self.continuations.accepted(append)
        for call_id in append.reads:
            state.tools.mark_read(call_id)
        state.told_to_listen = append.piece.force_listen
        if append.of_open_turn and state.auto_responds:
            # It was tried again out of the buffer: nothing of the turn is missing.
            state.turn_input.failed = False

    def _append_failed(self, failed: Sequence[Append], fault: Fault) -> None:
        beside = failed[0].beside
        if beside is not None:
            self.beside.settled(beside, fault)
            return
        self.line.spoil()
        self.outputs.append_failed(failed, fault)
        self.open_turn.take_back_sealed(failed)

    def _response_ended(self, well: bool) -> None:
        state = self._state
        if not well:
            # What waited for its end stays unanswered input.
            state.turn_input.answer_deferred = False
        state.later(self._after_response)

    def _after_response(self) -> None:
        if not self._state.open:
            return
        self.commits.promote()
        if not self.floor.response_in_progress:
            self._state.turn_input.overlap_speech_ms = 0.0
        self.open_turn.resume()

    def _result_accepted(self) -> None:
        if self._state.native:
            self.continuations.wanted()

    def _limit_reached(self) -> None:
        self.outputs.limit_reached()

    def _barge_in_by_speech(self, reason: str) -> None:
        if self.floor.response_pending:
            self.cancels.interrupt(reason, drop_answers=False)
        else:
            self.cancels.stop_playback(reason)

    def _heard(self, command: AppendAudio, item: AudioDecoded) -> None:
        self.intake.hear(command, item)

    def _turn_ended(self) -> None:
        self.commits.turn_ended()

    def _end_with_details(self, reason: str, details: dict[str, Any]) -> None:
        self.closing.close(reason, details=details)
