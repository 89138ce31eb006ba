"""Function calls: told as short responses of their own, answered by items of the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import (
    DuplexRawEvent,
    FunctionCallArgumentsDelta,
    FunctionCallArgumentsDone,
    Item,
    ItemAdded,
    ItemDone,
    OutputItemAdded,
    OutputItemDone,
    RateLimitsUpdated,
)

from .refusal import RefusalError
from .response import MOST_TEXT, Response, json_size
from .response_events import ResponseEvents

if TYPE_CHECKING:
    from duplex_sdk.stage import ToolCall

    from .state import SessionState

__all__ = ["ToolFlow"]


class ToolFlow:
    """Tells of calls. A call has a response id of its own; the one that speaks stays open."""

    __slots__ = ("_events", "_state")

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._events = ResponseEvents(state)

    def called(self, call: ToolCall, *, in_conversation: bool = True) -> None:
        """The model calls a function.

        One made outside the conversation is told and no more: there is nobody there to go on with
        a result.
        """
        state = self._state
        call_id = call.call_id or f"call_{state.ids.hex32()}"
        if json_size(call.name + call_id + call.arguments) > MOST_TEXT:
            state.fail("runtime_data_plane_stream_failed", "a function call is too long to be told")
            return
        if not call.name or not in_conversation:
            self._tell_raw(call, call_id)
            return
        try:
            state.tools.open_call(call_id, call.name, call.arguments, state.epoch)
        except RefusalError as error:
            state.fail("runtime_data_plane_stream_failed", str(error))
            return
        self._tell(call, call_id)

    def _tell_raw(self, call: ToolCall, call_id: str) -> None:
        state = self._state
        state.emit(
            DuplexRawEvent,
            name="function_call.done",
            event={
                "type": "function_call.done",
                "session_id": state.session_id,
                "epoch": state.epoch,
                "call_id": call_id,
                "name": call.name,
                "arguments": call.arguments,
            },
        )

    def _tell(self, call: ToolCall, call_id: str) -> None:
        """The whole of a function-call response, in its order."""
        state = self._state
        response = Response(
            id=state.ids.response(),
            epoch=state.epoch,
            turn_id=state.turn_id,
            commit_seq=state.commit_seq,
            config=state.config,
        )
        response.usage, state.usage = state.usage, None
        item_id = state.ids.item()
        begun = self._item(item_id, call, call_id, done=False)
        done = self._item(item_id, call, call_id, done=True)
        address = {"response_id": response.id, "item_id": item_id, "call_id": call_id}
        self._events.created(response)
        state.emit(OutputItemAdded, response_id=response.id, item=begun)
        previous = state.items.add(done)
        state.history.add_call(item_id, call_id=call_id, name=call.name, arguments=call.arguments)
        state.emit(ItemAdded, previous_item_id=previous, item=begun)
        state.emit(FunctionCallArgumentsDelta, **address, delta=call.arguments)
        state.emit(FunctionCallArgumentsDone, **address, name=call.name, arguments=call.arguments)
        state.emit(ItemDone, previous_item_id=previous, item=done)
        state.emit(OutputItemDone, response_id=response.id, item=done)
        self._events.call_done(response, done)
        state.emit(RateLimitsUpdated)

    @staticmethod
    def _item(item_id: str, call: ToolCall, call_id: str, *, done: bool) -> Item:
        return Item(
            id=item_id,
            type="function_call",
            status="completed" if done else "in_progress",
            name=call.name,
            call_id=call_id,
            arguments=call.arguments if done else "",
        )

    def deleted(self, item: Item) -> None:
        """The item of a call was deleted: its result is not wanted any more."""
        if item.type == "function_call" and isinstance(item.call_id, str):
            self._state.tools.cancel_call(item.call_id)
