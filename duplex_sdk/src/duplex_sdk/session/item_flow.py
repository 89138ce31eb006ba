"""Conversation items that clients make, remove, read and cut; and what they say they played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from duplex_sdk.plugin import DuplexRuntimeConfigError
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    ClientItem,
    CreateItem,
    DeleteItem,
    Item,
    ItemAdded,
    ItemDeleted,
    ItemDone,
    ItemRetrieved,
    ItemTruncated,
    PlaybackAcknowledged,
    RealtimeCommand,
    RealtimeProtocolError,
    RetrieveItem,
    TruncateItem,
    parse_item,
)

from .ack_target import ITEM_PREFIX, resolve_ack_target, response_of_item
from .history_entry import message_parts
from .item_audio import ItemAudioFlow, image_item
from .refusal import RefusalError
from .response_flow import spoken_text

if TYPE_CHECKING:
    from .history import HistoryText
    from .playback import PlaybackCursor
    from .spoken_text import SpokenText
    from .state import SessionState
    from .tool_flow import ToolFlow

__all__ = ["ItemFlow"]

MAX_ACKNOWLEDGED_BYTES = 900 * 1024
"""An item is echoed in one frame, and no frame of ours reaches 1 MiB."""


class ItemFlow:
    """Carries out the item commands of one session.

    Args:
        state: the session.
        tools: calls that items may answer or remove.
        spoken: makes items of speech.
        result_accepted: told when the model has a result to go on with.
        deleted: told of each item that was.
    """

    __slots__ = ("_deleted", "_result_accepted", "_spoken", "_state", "_tools")

    def __init__(
        self,
        state: SessionState,
        tools: ToolFlow,
        spoken: ItemAudioFlow,
        *,
        result_accepted: Callable[[], None],
        deleted: Callable[[str], None],
    ) -> None:
        self._state = state
        self._tools = tools
        self._spoken = spoken
        self._result_accepted = result_accepted
        self._deleted = deleted

    # create

    def create(self, command: CreateItem) -> None:
        """``conversation.item.create``: checked whole, then told and remembered."""
        try:
            made = parse_item(command.item, default_id=self._state.ids.item())
            self._check(made, command)
            if made.audio:
                self._spoken.receive(made, command, store_images=self._store_images)
            else:
                self._store(made, command.previous_item_id)
        except (RealtimeProtocolError, RefusalError) as error:
            self._state.fail(error.code, str(error), command=command, param=error.param)

    def _check(self, made: ClientItem, command: CreateItem) -> None:
        state = self._state
        item = made.item
        if item.id in state.items:
            raise RealtimeProtocolError("bad_event", "this id is taken", param="item.id")
        after = command.previous_item_id
        if after not in (None, "root") and after not in state.items:
            raise RealtimeProtocolError(
                "bad_event", "there is no such item", param="previous_item_id"
            )
        if made.audio and made.images and image_item(made).id in state.items:
            raise RealtimeProtocolError(
                "bad_event", "the id of its pictures is taken", param="item.id"
            )
        if made.images and not state.capabilities.supports_image_input:
            raise RealtimeProtocolError(
                "unsupported", "this model takes no images", param="item.content"
            )
        if len(msgspec.json.encode(item)) > MAX_ACKNOWLEDGED_BYTES:
            raise RealtimeProtocolError(
                "event_too_large", "the item is too large to be acknowledged", param="item"
            )

    def _store(self, made: ClientItem, after: str | None) -> None:
        state = self._state
        item = made.item
        if item.type == "function_call_output":
            self._accept_result(item)
        elif item.type == "function_call":
            self._remember_call(item, after)
        else:
            state.history.add_message(
                item.id, _role(item), message_parts(made), after=self._known(after)
            )
        previous = state.items.add(item, after=after)
        state.emit(ItemAdded, previous_item_id=previous, item=item)
        state.emit(ItemDone, previous_item_id=previous, item=item)

    def _store_images(self, made: ClientItem, after: str | None) -> str | None:
        """The pictures of a spoken item, as an item of their own; what follows goes behind it."""
        if not made.images:
            return after
        item = image_item(made)
        self._store(ClientItem(item=item, images=made.images), after)
        return item.id

    def _known(self, after: str | None) -> str | None:
        """The place in history; an item that history does not hold leaves it at the end."""
        if after is None or after == "root" or after in self._state.history:
            return after
        return None

    def _remember_call(self, item: Item, after: str | None) -> None:
        self._state.history.add_call(
            item.id,
            call_id=item.call_id if isinstance(item.call_id, str) else item.id,
            name=str(item.name),
            arguments=str(item.arguments),
            after=self._known(after),
        )

    def _accept_result(self, item: Item) -> None:
        state = self._state
        call_id, output = str(item.call_id), str(item.output)
        state.tools.check_result(call_id)
        changed = self._runtime_with(item)
        state.tools.accept_result(call_id)
        if changed is not None:
            state.runtime_config = changed
            state.publish_config()
        state.history.add_call_output(item.id, call_id=call_id, output=output)
        state.later(self._result_accepted)

    def _runtime_with(self, item: Item) -> Mapping[str, Any] | None:
        """What the plugin makes of a result; it may refuse it, nothing else of it matters."""
        state = self._state
        changed: Mapping[str, Any] | None = None
        try:
            with state.contained(
                "runtime_config_for_function_output", refusal=DuplexRuntimeConfigError
            ):
                changed = state.plugin.runtime_config_for_function_output(
                    state.published.config, state.runtime_config, msgspec.to_builtins(item)
                )
        except DuplexRuntimeConfigError as error:
            raise RealtimeProtocolError(error.code, str(error), param="item.output") from error
        return changed

    # delete and retrieve

    def delete(self, command: DeleteItem) -> None:
        """``conversation.item.delete``."""
        state = self._state
        item = state.items.get(command.item_id)
        if item is None:
            self._unknown(command, "item_delete_invalid_item_id")
            return
        response = state.response
        if response is not None and response.item_id == item.id:
            state.fail(
                "bad_event",
                "the item of the active response cannot be deleted; cancel it first",
                command=command,
                param="item_id",
            )
            return
        state.items.remove(item.id)
        self._tools.deleted(item)
        self._deleted(item.id)
        deleted = state.history.delete(item.id)
        state.emit(
            ItemDeleted,
            item_id=item.id,
            event={
                "type": "conversation.item.deleted",
                "item_id": item.id,
                "deleted": deleted,
            },
        )

    def retrieve(self, command: RetrieveItem) -> None:
        """``conversation.item.retrieve``: the item as it now stands, without audio."""
        item = self._state.items.get(command.item_id)
        if item is None:
            self._unknown(command, "item_retrieve_invalid_item_id")
        else:
            self._state.emit(ItemRetrieved, item=item)

    def _unknown(self, command: RealtimeCommand, code: str) -> None:
        self._state.fail(code, "there is no such item", command=command, param="item_id")

    # truncate

    def truncate(self, command: TruncateItem) -> None:
        """``conversation.item.truncate``: cut for good, and never grow back."""
        state = self._state
        item = state.items.get(command.item_id)
        if item is None:
            self._unknown(command, "item_truncate_invalid_item_id")
            return
        problem = self._untruncatable(item, command)
        if problem is not None:
            code, message, param = problem
            state.fail(code, message, command=command, param=param)
            return
        response_id = response_of_item(item.id)
        position = self._clamped(response_id, item, command.audio_end_ms)
        cursor = state.playback.cursor(response_id)
        if cursor is not None:
            cursor.acknowledge(position, position)
            cursor.truncate_committed(position)
        kept = self._cut(response_id, position, cursor)
        self._show(item.id, kept)
        state.emit(
            ItemTruncated,
            item_id=item.id,
            content_index=command.content_index,
            audio_end_ms=int(position),
            event={
                "type": "conversation.item.truncated",
                "item_id": item.id,
                "content_index": command.content_index,
                "audio_end_ms": int(position),
                "truncated": kept is not None,
            },
        )
        self._tell_playback(
            response_id, position, truncate=True, committed=kept is not None and kept.committed
        )

    def _untruncatable(
        self, item: Item, command: TruncateItem
    ) -> tuple[str, str, str | None] | None:
        state = self._state
        if not state.capabilities.supports_audio_truncate:
            return "unsupported", "this model's answers cannot be truncated", None
        if item.role != "assistant" or not item.id.startswith(f"{ITEM_PREFIX}resp_"):
            return "bad_event", "only an assistant's spoken item can be truncated", "item_id"
        response = state.response
        if response is not None and response.item_id == item.id:
            spoken = response.speaks and command.content_index == 0
        else:
            parts = item.content or ()
            index = command.content_index
            spoken = index < len(parts) and parts[index].type == "output_audio"
        if not spoken:
            return "bad_event", "that part does not exist or has no audio", "content_index"
        return None

    def _clamped(self, response_id: str, item: Item, position_ms: float) -> float:
        cursor = self._state.playback.cursor(response_id)
        if cursor is not None:
            return min(position_ms, int(cursor.audio_ms))
        part = item.content[0] if item.content else None
        length = part.audio_duration_ms if part is not None else 0
        return min(position_ms, length) if isinstance(length, int) else position_ms

    def _live(self, response_id: str) -> SpokenText | None:
        response = self._state.response
        if response is None or response.id != response_id:
            return None
        return spoken_text(response)

    def _cut(
        self, response_id: str, position_ms: float, cursor: PlaybackCursor | None
    ) -> HistoryText | None:
        """Cut what a response said, and remember of it what the client says that it heard."""
        state, live = self._state, self._live(response_id)
        kept = state.history.truncate(f"{ITEM_PREFIX}{response_id}", position_ms, live=live)
        if cursor is None or live is not None:
            return kept
        policy = state.config.playback_commit_policy
        heard = state.history.acknowledge(response_id, cursor, policy)
        return heard if heard is not None and heard.committed else kept

    def _show(self, item_id: str, kept: HistoryText | None) -> None:
        if kept is not None:
            self._state.show_text(item_id, kept.text)

    # playback

    def acknowledge(self, command: AckPlayback) -> bool:
        """``playback.ack``: the client's word for what it played; whether it was taken."""
        state = self._state
        try:
            response_id = resolve_ack_target(
                state.playback,
                response_id=command.response_id,
                item_id=command.item_id,
                active_id=None if state.response is None else state.response.id,
                commit_seq=state.commit_seq,
            )
        except RefusalError as error:
            state.fail(error.code, str(error), command=command, param=error.param)
            return False
        cursor = state.playback.cursor(response_id)
        assert cursor is not None, "the target has a cursor"
        cursor.acknowledge(command.played_ms, command.committed_ms)
        item_id = f"{ITEM_PREFIX}{response_id}"
        live = self._live(response_id)
        policy = state.config.playback_commit_policy
        if command.truncate:
            heard = command.played_ms if command.committed_ms is None else command.committed_ms
            cursor.truncate_committed(heard)
            kept = self._cut(response_id, cursor.committed_ms, cursor)
            self._show(item_id, kept)
        else:
            kept = state.history.acknowledge(response_id, cursor, policy, live=live)
            if live is None and kept is not None and kept.committed:
                self._show(item_id, kept)
        state.lease.touch(state.now, "playback_ack")
        committed = kept is not None and kept.committed
        self._tell_playback(
            response_id, cursor.played_ms, truncate=command.truncate, committed=committed
        )
        if cursor.complete and committed:
            self._settle(response_id)
        return True

    def _settle(self, response_id: str) -> None:
        """Heard to its end and remembered: nothing more is to be said about its playback."""
        state = self._state
        if state.playback.release(response_id, commit_seq=state.commit_seq):
            state.history.forget_alignment(response_id)

    def _tell_playback(
        self, response_id: str, played_ms: float, *, truncate: bool, committed: bool
    ) -> None:
        state = self._state
        cursor = state.playback.cursor(response_id)
        state.emit(
            PlaybackAcknowledged,
            event={
                "type": "playback.acknowledged",
                "session_id": state.session_id,
                "epoch": state.epoch,
                "item_id": f"{ITEM_PREFIX}{response_id}",
                "played_ms": int(played_ms if cursor is None else cursor.played_ms),
                "committed_ms": int(played_ms if cursor is None else cursor.committed_ms),
                "truncate": truncate,
                "playback": state.playback_snapshot(response_id),
                "history_committed": committed,
            },
        )


def _role(item: Item) -> Any:
    return item.role if isinstance(item.role, str) else "user"
