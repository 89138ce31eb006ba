"""``response.create``: an answer to what was committed, or to the conversation as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from duplex_sdk.plugin import AppendPiece, DuplexConfigError, ResponseCreateOptions
from duplex_sdk.protocol.duplex import CreateResponse, RealtimeProtocolError, parse_item

from .append_queue import Append
from .beside_flow import MOST_BESIDE
from .history_entry import message, message_parts
from .waiting_line import HeldStep

if TYPE_CHECKING:
    from .append_queue import AppendQueue
    from .beside_flow import BesideFlow
    from .commit_flow import CommitFlow
    from .continuation_flow import ContinuationFlow
    from .floor import Floor
    from .response_flow import ResponseFlow
    from .state import SessionState
    from .waiting_line import WaitingLine

__all__ = ["CreateFlow"]


class CreateFlow:
    """Asks for responses, by name.

    Args:
        state: the session.
        appends: carries what is answered.
        line: where a create waits for the audio it needs.
        floor: knows what is in progress.
        commits: holds committed input.
        responses: opens the response.
        beside: opens those outside the conversation.
        continuations: makes a model go on that nobody speaks to.
    """

    __slots__ = (
        "_appends",
        "_beside",
        "_commits",
        "_continuations",
        "_floor",
        "_line",
        "_responses",
        "_state",
    )

    def __init__(
        self,
        state: SessionState,
        appends: AppendQueue,
        line: WaitingLine,
        floor: Floor,
        commits: CommitFlow,
        responses: ResponseFlow,
        beside: BesideFlow,
        continuations: ContinuationFlow,
    ) -> None:
        self._state = state
        self._appends = appends
        self._line = line
        self._floor = floor
        self._commits = commits
        self._responses = responses
        self._beside = beside
        self._continuations = continuations

    def receive(self, command: CreateResponse, *, lenient: bool) -> None:
        """A client asks for a response: in its turn, behind the audio before it.

        One outside the conversation needs none of that audio.
        """
        if self._is_beside(command):
            self._line.push(HeldStep(run=lambda: self._answer_beside(command, lenient)))
            return
        step = HeldStep(
            run=lambda: self._carry_out(command, lenient, wanted=step.answers),
            settled=self._state.response is None,
            answers=True,
        )
        self._line.push(step)

    def _carry_out(self, command: CreateResponse, lenient: bool, *, wanted: bool) -> None:
        state = self._state
        if not wanted:
            return
        if self._floor.response_pending:
            state.fail(
                "conversation_already_has_active_response",
                "a response is in progress; wait for its response.done or cancel it",
                command=command,
            )
            return
        options = self._options(command, lenient)
        if options is not None:
            self._start(command, options)

    def _options(self, command: CreateResponse, lenient: bool) -> ResponseCreateOptions | None:
        """What the command asks for; None when it was refused."""
        state = self._state
        try:
            return ResponseCreateOptions.from_realtime(
                command.response,
                native=state.native,
                lenient=lenient,
                out_of_band=state.capabilities.supports_out_of_band_responses,
                private_keys=state.plugin.private_runtime_config_keys,
            )
        except DuplexConfigError as error:
            state.fail(error.code, error.message, command=command, param=error.param)
            return None

    def _start(self, command: CreateResponse, options: ResponseCreateOptions) -> None:
        state = self._state
        turn = state.turn_input
        if options.input is not None:
            self._answer_input(command, options)
        elif turn.retained_items:
            self._responses.open(options, bound=True)
            self._commits.submit_retained()
        elif turn.heard_items or self._answers_conversation():
            turn.heard_items.clear()
            self._responses.open(options, bound=True)
            self._appends.push(
                Append(AppendPiece(kind="conversation", final=True), state.epoch, answers=True)
            )
        elif state.auto_responds and self._continuations.enabled:
            # The model answers with its next unit, or chooses to listen. One that is given no
            # silence has no next unit: its response would stay open for ever.
            self._responses.open(options)
            self._continuations.wanted()
        else:
            self._refuse(command)

    def _is_beside(self, command: CreateResponse) -> bool:
        able = self._state.capabilities.supports_out_of_band_responses
        return able and command.response.get("conversation") == "none"

    def _answer_beside(self, command: CreateResponse, lenient: bool) -> None:
        """Answer outside the conversation, whatever is in progress in it."""
        options = self._options(command, lenient)
        if options is None:
            return
        if self._beside.full:
            self._state.fail(
                "input_backpressure",
                f"{MOST_BESIDE} responses outside the conversation are in progress",
                command=command,
            )
            return
        asked = self._asked(command, options)
        if asked is not None:
            self._beside.open(options, asked)

    def _asked(
        self, command: CreateResponse, options: ResponseCreateOptions
    ) -> tuple[Mapping[str, Any], ...] | None:
        """What the command brings along as a model reads it; None when it was refused."""
        try:
            return tuple(self._message(each) for each in options.input or ())
        except RealtimeProtocolError as error:
            param = "response.input"
            self._state.fail(error.code, str(error), command=command, param=param)
            return None

    def _answer_input(self, command: CreateResponse, options: ResponseCreateOptions) -> None:
        """Answer what the command brings along instead of the conversation, as a part of it."""
        asked = self._asked(command, options)
        if asked is None:
            return
        self._responses.open(options, bound=True)
        self._appends.push(
            Append(
                AppendPiece(kind="conversation", final=True),
                self._state.epoch,
                answers=True,
                conversation=asked,
            )
        )

    def _message(self, value: Any) -> Mapping[str, Any]:
        """One item of ``response.input`` as a model reads it."""
        if not isinstance(value, Mapping):
            raise RealtimeProtocolError("bad_event", "an input item must be an object")
        made = parse_item(value, default_id=self._state.ids.item())
        if made.item.type != "message" or made.audio:
            raise RealtimeProtocolError(
                "unsupported", "only written messages can be answered aside of the conversation"
            )
        if made.images and not self._state.capabilities.supports_image_input:
            raise RealtimeProtocolError("unsupported", "this model takes no images")
        return message(str(made.item.role), message_parts(made))

    def _answers_conversation(self) -> bool:
        state = self._state
        by_text = state.capabilities.supports_text_only_turn
        return by_text or (bool(state.tools.unread) and not state.auto_responds)

    def _refuse(self, command: CreateResponse) -> None:
        state = self._state
        if state.history.unanswered:
            state.history.mark_answered()
            state.fail(
                "text_only_turn_unsupported",
                "this model answers speech only; the text stays in the conversation",
                command=command,
            )
        else:
            state.fail(
                "response_create_without_input",
                "there is nothing to answer: append and commit audio first",
                command=command,
            )
