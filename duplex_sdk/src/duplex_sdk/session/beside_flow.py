"""Responses beside the conversation's: each by a stage request of its own.

Those outside the conversation read what their client gives them and nothing else, and it never
hears of them. Those that drain are the last of an earlier turn: a model that takes a request for
each turn may begin the next one while they still speak. The epoch is the conversation's fence: it
ends them too, but ending one of them leaves it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.plugin import AppendPiece

from .append_queue import Append
from .effects import DropQueuedAudio
from .finish import CUT_SHORT, finish_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from duplex_sdk.plugin import ModelResult, ResponseCreateOptions

    from .append_queue import AppendQueue
    from .inputs import Fault
    from .response import Response
    from .response_flow import ResponseFlow
    from .state import SessionState

__all__ = ["MOST_BESIDE", "BesideFlow"]

MOST_BESIDE = 4
"""How many may be under way in one session."""


class BesideFlow:
    """Opens, feeds and ends the responses beside the conversation of one session.

    Args:
        state: the session.
        appends: carries what they answer.
        responses: tells of them.
    """

    __slots__ = ("_appends", "_responses", "_state")

    def __init__(self, state: SessionState, appends: AppendQueue, responses: ResponseFlow) -> None:
        self._state = state
        self._appends = appends
        self._responses = responses

    @property
    def full(self) -> bool:
        """Whether no more may begin."""
        aside = (not each.in_conversation for each in self._state.beside.values())
        return sum(aside) >= MOST_BESIDE

    def open(self, options: ResponseCreateOptions, asked: tuple[Mapping[str, Any], ...]) -> None:
        """Begin one, to answer these messages under its options."""
        state = self._state
        response = self._responses.open_beside(options)
        self._appends.push(
            Append(
                AppendPiece(kind="conversation", final=True),
                state.epoch,
                conversation=asked,
                beside=response,
            )
        )

    def drain(self) -> None:
        """The open response, if its model lets the next turn begin, goes on beside it."""
        state = self._state
        response, request_id = state.response, state.requests.active_id
        if response is not None and response.releases and request_id is not None:
            self._responses.drain(response, request_id)

    def named(self, response_id: str | None) -> Response | None:
        """The one with this id, if it is under way."""
        return None if response_id is None else self._state.beside.get(response_id)

    def of_request(self, request_id: str) -> Response | None:
        """The one whose outputs come under this stage request."""
        return next(
            (each for each in self._state.beside.values() if each.request_id == request_id), None
        )

    # what the stages say

    def take(self, response: Response, result: ModelResult, *, ends_turn: bool) -> None:
        """One result of its request.

        Raises:
            ValueError: the model's audio is no audio.
        """
        if result.text or result.audio is not None:
            self._responses.say(response, result)
        if response.full:
            self._complete(response, CUT_SHORT)
            return
        ended = result.end_of_turn and ends_turn
        silent = result.listen and not result.buffering and not response.item_open
        if ended or silent:
            self._complete(response, finish_of(result) if ended else "")

    def idle(self) -> None:
        """All stages fell silent: what they had to say was said."""
        for response in tuple(self._state.beside.values()):
            if self._state.requests.is_submitted(response.request_id):
                self._complete(response)

    def _complete(self, response: Response, finish: str = "") -> None:
        self.leave_stages(response)
        self._responses.complete(response, listened=not response.item_open, finish=finish)

    # other ends

    def cancel(self, response: Response, reason: str) -> None:
        """End one of them alone: what the model still says of it is nobody's."""
        self.leave_stages(response)
        self._cancelled(response, reason)

    def end_epoch(self, reason: str) -> None:
        """All work of the old epoch is stopped, theirs too; the stages have been told."""
        for response in tuple(self._state.beside.values()):
            self._cancelled(response, reason)

    def close(self) -> None:
        """The session ends; what it has said already may still be read."""
        for response in tuple(self._state.beside.values()):
            self._tell_cancelled(response, "session_closed")

    def _cancelled(self, response: Response, reason: str) -> None:
        self._state.do(DropQueuedAudio(response.id, response.epoch))
        self._tell_cancelled(response, reason)

    def _tell_cancelled(self, response: Response, reason: str) -> None:
        item, committed = self._responses.settle(response, "cancelled")
        self._responses.cancelled(response, reason, item=item, committed=committed)

    def fail(self, response: Response, fault: Fault) -> None:
        """It broke."""
        self.leave_stages(response)
        self._responses.fail(response, fault)

    def fail_all(self, fault: Fault) -> None:
        """The stages can serve none of them any more."""
        for response in tuple(self._state.beside.values()):
            self.fail(response, fault)

    def settled(self, response: Response, fault: Fault | None = None) -> None:
        """What it is to answer has reached the model, or has not.

        One that ended meanwhile has no use for its request any more.
        """
        if response.id not in self._state.beside:
            self.leave_stages(response)
        elif fault is not None:
            self._state.fail(fault.code, fault.message)
            self.fail(response, fault)

    def leave_stages(self, response: Response) -> None:
        """Nothing more is wanted of its request; the one of the conversation goes on."""
        state, request_id = self._state, response.request_id
        if self._appends.forget_beside(response):
            return
        if state.requests.is_submitted(request_id):
            state.close_stream(request_id)
        if state.requests.release(request_id):
            state.release_requests((request_id,))
