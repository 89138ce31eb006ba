"""Function calls wait for the open message response: a stock client holds one response."""

from __future__ import annotations

from duplex_sdk.protocol.duplex import (
    DuplexEvent,
    FunctionCallArgumentsDelta,
    FunctionCallArgumentsDone,
    ItemAdded,
    ItemDone,
    OutputItemAdded,
    RateLimitsUpdated,
    ResponseCreated,
    ResponseDone,
)

__all__ = ["FunctionCallHoldBack"]


class FunctionCallHoldBack:
    """Reorders one event stream so that a function call never interleaves with a response.

    A response that begins while another is open is a function call (a conversation has one message
    response at a time). Its events are kept and follow the open response's ``response.done``. A
    response outside the conversation is none of this: whoever asked for it awaits it beside others.
    """

    def __init__(self) -> None:
        self._open: str | None = None
        self._held: list[DuplexEvent] = []
        self._held_responses: set[str] = set()
        self._held_items: set[str] = set()
        self._rate_limits_to_hold = 0

    def release(self, event: DuplexEvent) -> tuple[DuplexEvent, ...]:
        """The events that may go out now, ``event`` among them unless it is held."""
        if isinstance(event, ResponseCreated) and _is_beside(event):
            return (event,)
        if self._open is None:
            if isinstance(event, ResponseCreated):
                self._open = event.response_id
            return (event,)
        if self._belongs_to_held(event):
            self._held.append(event)
            return ()
        if isinstance(event, ResponseDone) and event.response_id == self._open:
            return (event, *self._drain())
        return (event,)

    def _belongs_to_held(self, event: DuplexEvent) -> bool:
        if isinstance(event, ResponseCreated):
            self._held_responses.add(event.response_id)
            return True
        if isinstance(event, RateLimitsUpdated):
            held = self._rate_limits_to_hold > 0
            self._rate_limits_to_hold -= held
            return held
        if isinstance(event, ItemAdded | ItemDone):
            return event.item.id in self._held_items
        if not isinstance(
            event,
            OutputItemAdded | FunctionCallArgumentsDelta | FunctionCallArgumentsDone | ResponseDone,
        ):
            return False
        held = event.response_id in self._held_responses
        if held and isinstance(event, OutputItemAdded):
            self._held_items.add(event.item.id)
        if held and isinstance(event, ResponseDone):
            self._rate_limits_to_hold += 1
        return held

    def _drain(self) -> tuple[DuplexEvent, ...]:
        held = tuple(self._held)
        finished = {event.response_id for event in held if isinstance(event, ResponseDone)}
        unfinished = self._held_responses - finished
        self._open = next(iter(unfinished), None)
        self._held.clear()
        self._held_responses.clear()
        self._held_items.clear()
        return held


def _is_beside(event: ResponseCreated) -> bool:
    ours = (event.response.metadata or {}).get("duplex")
    return isinstance(ours, dict) and ours.get("conversation") == "none"
