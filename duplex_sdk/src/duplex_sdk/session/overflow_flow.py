"""A reader too slow for its session: the response fails, and the session ends with it or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    ErrorEvent,
    Item,
    ResponseCreated,
    ResponseDone,
    SessionClosed,
)

from .effects import DropQueuedAudio, Emit
from .response_flow import failure
from .state import Phase

if TYPE_CHECKING:
    from .beside_flow import BesideFlow
    from .inputs import OutputRefused
    from .response import Response
    from .response_flow import ResponseFlow
    from .state import SessionState

__all__ = ["OverflowFlow"]

CODE = "output_backpressure"
MESSAGE = "pending output limit exceeded"

# One for all sessions: an empty set takes 216 bytes.
_NONE: frozenset[Any] = frozenset()


class OverflowFlow:
    """Deals with an output buffer that is full, once.

    Args:
        state: the session.
        responses: ends the response that overflowed.
        beside: told of one that was outside the conversation.
        turn_failed: told of it, so that the rest of its turn is dropped.
        end_session: closes the session with details.
    """

    __slots__ = (
        "_beside",
        "_end_session",
        "_failed_response",
        "_responses",
        "_session_failed",
        "_state",
        "_tried_again",
        "_turn_failed",
        "_untold",
    )

    def __init__(
        self,
        state: SessionState,
        responses: ResponseFlow,
        beside: BesideFlow,
        *,
        turn_failed: Callable[[Response], None],
        end_session: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._state = state
        self._turn_failed = turn_failed
        self._responses = responses
        self._beside = beside
        self._end_session = end_session
        self._failed_response: str | None = None
        self._session_failed = False
        self._untold: frozenset[str] = _NONE
        self._tried_again: frozenset[str | None] = _NONE

    def refused(self, item: OutputRefused) -> None:
        """The first of these events found no room, the others were not tried."""
        state = self._state
        if self._session_failed:
            return
        if not state.open:
            self._put_endings_again(item.events)
            return
        state.overflowed = True
        for event in item.events:
            if isinstance(event, AudioDelta):
                state.playback.take_back(event.response_id, event.duration_ms)
        failed = self._fail_response(item.events)
        state.fail(CODE, MESSAGE)
        tried_before = bool(item.events) and item.events[0].event_id in self._tried_again
        if state.limits.overflow_policy == "fail_response" and failed and not tried_before:
            self._put_again(item.events)
            return
        self._session_failed = True
        self._untold = _begun(item.events)
        self._end_session(
            CODE,
            {
                "limit": item.limit,
                "max_bytes": state.limits.max_pending_output_bytes_per_session,
                "max_events": state.limits.max_pending_output_events_per_session,
            },
        )

    def _fail_response(self, events: tuple[DuplexEvent, ...]) -> bool:
        """End what overflowed with one failed ``response.done``, if its client knows of it.

        Returns:
            Whether there was a response to end.
        """
        state = self._state
        done = next((e for e in events if isinstance(e, ResponseDone)), None)
        response = self._concerned(events, ended=done is not None)
        untold = _begun(events)
        if response is not None:
            self._failed_response = response.id
            state.do(DropQueuedAudio(response.id, state.epoch))
            item, _ = self._responses.settle(response, "failed")
            if not response.apart:
                self._turn_failed(response)
            else:
                self._beside.leave_stages(response)
            self._responses.failed_alone(
                response, failure(CODE, MESSAGE), item, told=response.id not in untold
            )
        elif done is not None:
            self._failed_response = done.response_id
            state.do(DropQueuedAudio(done.response_id, state.epoch))
            state.history.discard_response(done.response_id)
            if done.response_id not in untold:
                failed = _turned_into_failure(done)
                state.do(Emit(msgspec.structs.replace(failed, epoch=state.epoch)))
        return response is not None or done is not None

    def _concerned(self, events: tuple[DuplexEvent, ...], *, ended: bool) -> Response | None:
        """The open response that must make room: the one whose event found none, if it is open."""
        state = self._state
        first = _response_of(events[0]) if events else None
        if first is not None and first in state.beside:
            return state.beside[first]
        if state.response is None and not ended:
            return next(iter(state.beside.values()), None)
        return state.response

    def _put_again(self, events: tuple[DuplexEvent, ...]) -> None:
        """What belongs to no failed response may find room now."""
        others = [event for event in events if _response_of(event) != self._failed_response]
        self._tried_again = frozenset(event.event_id for event in others)
        for event in others:
            # It is told now, whatever epoch it was first told in.
            self._state.do(Emit(msgspec.structs.replace(event, epoch=self._state.epoch)))

    def _put_endings_again(self, events: tuple[DuplexEvent, ...]) -> None:
        """The session is ending anyway: for endings and errors there is room kept, once."""
        if self._state.phase is Phase.CLOSED:
            return
        untold = _begun(events)
        for event in events:
            ends = isinstance(event, ResponseDone) and event.response_id not in untold
            if event.event_id not in self._tried_again and (ends or isinstance(event, ErrorEvent)):
                self._state.do(Emit(event))
        self._tried_again |= {event.event_id for event in events}

    def suppresses(self, event: DuplexEvent) -> bool:
        """Whether an event is not told any more because of an overflow."""
        if isinstance(event, ResponseDone):
            return event.response_id in self._untold
        if isinstance(event, ErrorEvent | SessionClosed):
            return False
        if self._session_failed:
            return True
        failed = self._failed_response
        return failed is not None and _response_of(event) == failed


def _begun(events: tuple[DuplexEvent, ...]) -> frozenset[str]:
    """The responses of whose beginning these events tell."""
    return frozenset(e.response_id for e in events if isinstance(e, ResponseCreated))


def _response_of(event: DuplexEvent) -> str | None:
    response_id = getattr(event, "response_id", None)
    if response_id is None:
        item = getattr(event, "item", None)
        if isinstance(item, Item) and item.id.startswith("item_resp_"):
            return item.id.removeprefix("item_")
    return response_id


def _turned_into_failure(done: ResponseDone) -> ResponseDone:
    output = tuple(
        msgspec.structs.replace(item, status="incomplete") for item in done.response.output
    )
    metadata = dict(done.response.metadata or {})
    ours = metadata.get("duplex")
    if isinstance(ours, dict):
        metadata["duplex"] = {**ours, "committed": False}
    response = msgspec.structs.replace(
        done.response,
        status="failed",
        status_details=failure(CODE, MESSAGE),
        output=output,
        metadata=metadata,
    )
    return msgspec.structs.replace(done, response=response)
