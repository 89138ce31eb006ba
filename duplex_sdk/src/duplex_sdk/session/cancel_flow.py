"""Interruption: a cancel is one step that nothing can come between.

History up to what was heard, the new epoch, the removal of queued audio, the cancelled ending and
the request to stop stage work all happen in one ``handle`` call, whatever is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import (
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearOutputAudio,
    InputCleared,
    OutputAudioCleared,
)

from .effects import AbortRequests, DropQueuedAudio
from .state import TurnState

if TYPE_CHECKING:
    from .beside_flow import BesideFlow
    from .inputs import QueuedAudioDropped, RequestsAborted
    from .open_turn import OpenTurn
    from .response import Response
    from .response_flow import ResponseFlow
    from .state import SessionState
    from .transcripts import Transcripts

__all__ = ["CancelFlow"]


class CancelFlow:
    """Carries out every command and decision that interrupts.

    Args:
        state: the session.
        responses: ends what is open.
        beside: ends what is open outside the conversation.
        open_turn: the user's input, part of which an interruption may drop.
        transcripts: what the user said.
        take_held: takes their answer away from the commits and creates that still wait; whether
            there were any.
    """

    __slots__ = ("_beside", "_open_turn", "_responses", "_state", "_take_held", "_transcripts")

    def __init__(
        self,
        state: SessionState,
        responses: ResponseFlow,
        beside: BesideFlow,
        open_turn: OpenTurn,
        transcripts: Transcripts,
        *,
        take_held: Callable[[], bool],
    ) -> None:
        self._state = state
        self._responses = responses
        self._beside = beside
        self._open_turn = open_turn
        self._transcripts = transcripts
        self._take_held = take_held

    # commands

    def cancel_response(self, command: CancelResponse) -> None:
        """``response.cancel``: the active response, or the one being prepared.

        One outside the conversation is stopped by its name only, and alone.
        """
        beside = self._beside.named(command.response_id)
        if beside is not None:
            self._state.lease.touch(self._state.now, "signal")
            self._beside.cancel(beside, "client_cancelled")
            return
        active = self._active_or_held(command.response_id)
        if active is None:
            self._nothing_to_cancel(command)
        else:
            self.interrupt("client_cancelled", drop_answers=True)

    def _active_or_held(self, wanted: str | None) -> Response | None:
        """The response that a client may stop now.

        An answer that still waits for its audio is opened, so that it can be ended; beside an open
        response it is only taken away.
        """
        active = self._state.response
        if wanted is not None and (active is None or wanted != active.id):
            return None
        held = self._take_held()
        if active is None and held:
            return self._responses.open()
        return active

    def _nothing_to_cancel(self, command: CancelResponse) -> None:
        self._state.fail(
            "response_cancel_not_active",
            "Cancellation failed: no such response is active",
            command=command,
            param="response_id" if command.response_id is not None else None,
        )

    def clear_output(self, command: ClearOutputAudio) -> None:
        """``output_audio_buffer.clear``: never fails; stops what still speaks or plays."""
        state = self._state
        reason = "output_audio_buffer_clear"
        beside = self._beside.named(command.response_id)
        active = None if beside is not None else self._active_or_held(command.response_id)
        target = command.response_id or state.last_response_id
        state.emit(OutputAudioCleared, response_id=target)
        if beside is not None:
            self._beside.cancel(beside, reason)
        elif active is not None:
            self.interrupt(reason, drop_answers=False)
        elif target is not None and target == self._unheard_id():
            self._stop_playback(target, reason)

    def cancel_input(self, command: CancelInput) -> None:
        """``input.cancel``: pending input and the active response go."""
        del command
        self._drop_everything()

    def barge_in(self, command: BargeIn) -> None:
        """``barge_in``: the same, of a model that can be interrupted."""
        state = self._state
        if not state.capabilities.supports_barge_in:
            state.fail("barge_in_unsupported", "this model cannot be interrupted", command=command)
            return
        self._drop_everything()

    def _drop_everything(self) -> None:
        state = self._state
        unheard = self._unheard_id()
        self._open_turn.drop_all()
        if unheard is not None:
            state.emit(OutputAudioCleared, response_id=unheard)
            self._stop_playback(unheard, "barge_in")
        else:
            self.interrupt("barge_in", drop_answers=True)
        state.emit(InputCleared)

    # the common part

    def interrupt(self, reason: str, *, drop_answers: bool) -> None:
        """End the epoch, and the active response with it if there is one.

        Args:
            reason: why, for the cancelled ending.
            drop_answers: committed input that waits for an answer loses it.
        """
        state = self._state
        response = state.response
        if response is None:
            self._end_epoch(reason, 0.0, drop_answers=drop_answers)
            return
        heard_ms = self._heard_ms(response)
        item, committed = self._responses.settle(response, "cancelled")
        state.muted = response.item_open and state.capabilities.cancel_effect == "mutes"

        def tell() -> None:
            state.do(DropQueuedAudio(response.id, response.epoch))
            self._responses.cancelled(response, reason, item=item, committed=committed)

        self._end_epoch(reason, heard_ms, drop_answers=drop_answers, tell=tell)

    def _heard_ms(self, response: Response) -> float:
        cursor = self._state.playback.cursor(response.id)
        policy = response.config.playback_commit_policy
        return 0.0 if cursor is None else cursor.heard_ms(policy)

    def _end_epoch(
        self,
        reason: str,
        heard_ms: float,
        *,
        drop_answers: bool,
        tell: Callable[[], None] = lambda: None,
    ) -> None:
        """Everything under way belongs to the past; ``tell`` says so before new work begins."""
        state = self._state
        requests, reserved = state.requests.end_epoch()
        state.epoch += 1
        state.sequence.accept_fence(state.fence)
        state.playback.cut()
        state.turn_state = TurnState.BARGE_IN
        for request_id in requests:
            state.close_stream(request_id)
        tell()
        self._beside.end_epoch(reason)
        if requests:
            op = state.next_op()
            state.requests.leave(op, requests)
            state.do(AbortRequests(op, requests, heard_ms, state.epoch))
        state.release_requests(reserved)
        still_heard = self._open_turn.begin_epoch(drop_answers=drop_answers)
        self._transcripts.keep_only(still_heard)
        state.lease.touch(state.now, "signal")

    # playback of a response that is done

    def _playing_id(self) -> str | None:
        state = self._state
        if state.response is not None:
            return None
        playing = state.playback.still_playing(state.now, server_vad=state.has_detector)
        return state.playback.current_id if playing else None

    def _unheard_id(self) -> str | None:
        """The latest response, done, of which something may not have been played yet.

        A client that never acks and has no detector leaves that open; what waits to be sent to it
        must go all the same.
        """
        state = self._state
        if state.response is not None:
            return None
        unheard = state.playback.may_be_unheard(state.now, server_vad=state.has_detector)
        return state.playback.current_id if unheard else None

    def stop_playback(self, reason: str) -> None:
        """The user speaks over audio of a finished response: what is unheard is cut away."""
        playing = self._playing_id()
        if playing is not None:
            self._state.emit(OutputAudioCleared, response_id=playing)
            self._stop_playback(playing, reason)

    def _stop_playback(self, response_id: str, reason: str) -> None:
        state = self._state
        cursor = state.playback.cursor(response_id)
        epoch = state.epoch
        policy = state.config.playback_commit_policy
        heard_ms = 0.0 if cursor is None else cursor.heard_ms(policy)
        self._end_epoch(reason, heard_ms, drop_answers=False)
        state.do(DropQueuedAudio(response_id, epoch))
        self.recut(response_id)

    def recut(self, response_id: str) -> None:
        """What was heard of a finished response is less than was thought; no event."""
        state = self._state
        cursor = state.playback.cursor(response_id)
        if cursor is None:
            return
        kept = state.history.cut_at_heard(response_id, cursor, state.config.playback_commit_policy)
        if kept is not None:
            state.show_text(f"item_{response_id}", kept.text)

    # outcomes

    def audio_dropped(self, item: QueuedAudioDropped) -> None:
        """So much queued audio never went out: it was not heard either."""
        state = self._state
        if state.playback.take_back(item.response_id, item.duration_ms) is not None:
            self.recut(item.response_id)

    def aborted(self, item: RequestsAborted) -> None:
        """Stage work was stopped, or not: the cancel stands either way."""
        state = self._state
        state.requests.left(item.op, gone=item.fault is None)
        if item.fault is not None and state.open:
            state.fail("runtime_abort_failed", item.fault.message)
