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
    ResponseDone,
    SessionClosed,
)

from .effects import DropQueuedAudio, Emit
from .response_flow import failure

if TYPE_CHECKING:
    from .inputs import OutputRefused
    from .response_flow import ResponseFlow
    from .state import SessionState

__all__ = ["OverflowFlow"]

CODE = "output_backpressure"
MESSAGE = "pending output limit exceeded"


class OverflowFlow:
    """Deals with an output buffer that is full, once.

    Args:
        state: the session.
        responses: ends the response that overflowed.
        end_session: closes the session with details.
    """

    def __init__(
        self,
        state: SessionState,
        responses: ResponseFlow,
        *,
        end_session: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._state = state
        self._responses = responses
        self._end_session = end_session
        self._failed_response: str | None = None
        self._session_failed = False

    def refused(self, item: OutputRefused) -> None:
        """The first of these events found no room, the others were not tried."""
        state = self._state
        if self._session_failed or not state.open:
            return
        again = state.overflowed
        state.overflowed = True
        for event in item.events:
            if isinstance(event, AudioDelta):
                state.playback.take_back(event.response_id, event.duration_ms)
        others = self._fail_response(item.events)
        if state.limits.overflow_policy == "fail_response" and not again:
            self._put_again(others)
            return
        self._session_failed = True
        self._end_session(
            CODE,
            {
                "limit": item.limit,
                "max_bytes": state.limits.max_pending_output_bytes_per_session,
                "max_events": state.limits.max_pending_output_events_per_session,
            },
        )

    def _fail_response(self, events: tuple[DuplexEvent, ...]) -> list[DuplexEvent]:
        """End what overflowed with one failed ``response.done`` and one ``error``.

        Returns:
            The refused events that belong to no failed response.
        """
        state = self._state
        response = state.response
        done = next((e for e in events if isinstance(e, ResponseDone)), None)
        if response is not None:
            self._failed_response = response.id
            state.do(DropQueuedAudio(response.id, state.epoch))
            item, _ = self._responses.settle(response, "failed")
            self._responses.failed_alone(response, failure(CODE, MESSAGE), item)
        elif done is not None:
            self._failed_response = done.response_id
            state.do(DropQueuedAudio(done.response_id, state.epoch))
            state.history.discard_response(done.response_id)
            state.do(Emit(_turned_into_failure(done)))
        state.fail(CODE, MESSAGE)
        return [event for event in events if _response_of(event) != self._failed_response]

    def _put_again(self, events: list[DuplexEvent]) -> None:
        for event in events:
            self._state.do(Emit(event))

    def suppresses(self, event: DuplexEvent) -> bool:
        """Whether an event is not told any more because of an overflow."""
        if isinstance(event, ErrorEvent | ResponseDone | SessionClosed):
            return False
        if self._session_failed:
            return True
        failed = self._failed_response
        return failed is not None and _response_of(event) == failed


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
