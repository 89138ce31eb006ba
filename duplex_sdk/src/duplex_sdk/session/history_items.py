"""Items of the conversation in their order: what was written, spoken by the user, or called."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from duplex_sdk.plugin.read_only import ReadOnlyDict

from .history_entry import (
    HistoryEntry,
    audio_message,
    call_message,
    call_output_message,
    message,
    with_transcript,
)

if TYPE_CHECKING:
    from .message_log import MessageLog

__all__ = ["HistoryItems"]


class HistoryItems:
    """Items and their messages, in the order of their places.

    Places without a message are invisible. What is in them of responses is their subclass's.
    """

    __slots__ = ("_log", "_unanswered")

    def __init__(self, log: MessageLog) -> None:
        self._log = log
        self._unanswered: dict[str, None] = {}

    # Reading

    @property
    def version(self) -> int:
        """Grows with every change of what ``messages`` shows."""
        return self._log.version

    @property
    def unanswered(self) -> tuple[str, ...]:
        """User items that no response has answered yet, oldest first."""
        return tuple(self._unanswered)

    def messages(self) -> tuple[Mapping[str, Any], ...]:
        """The conversation, read-only; the same object until the next change."""
        return self._log.messages()

    def messages_without(self, item_ids: Collection[str]) -> tuple[Mapping[str, Any], ...]:
        """The conversation without some items: those of the turn under way."""
        return self._log.messages_without(item_ids)

    def __len__(self) -> int:
        return len(self.messages())

    def __contains__(self, item_id: str) -> bool:
        entry = self._log.get(item_id)
        return entry is not None and entry.message is not None

    def message(self, item_id: str) -> Mapping[str, Any] | None:
        """The message of an item, None where there is none (yet)."""
        entry = self._log.get(item_id)
        return None if entry is None else entry.message

    # Items

    def reserve(self, item_id: str, *, after: str | None = None) -> None:
        """Hold a place for an item to come; an item that has one keeps it.

        Args:
            item_id: of the item.
            after: id of the item before it, ``"root"`` for the first place, None for the end.

        Raises:
            KeyError: ``after`` names no item of the conversation.
        """
        self._place(item_id, after)

    def add_user_audio(
        self, item_id: str, *, transcript: str | None = None, after: str | None = None
    ) -> Mapping[str, Any]:
        """A stretch of speech was committed.

        Returns:
            The message, with a placeholder for the audio.
        """
        entry = self._place(item_id, after)
        self._show(entry, audio_message(transcript), len(transcript or ""))
        return entry.message or ReadOnlyDict()

    def set_transcript(self, item_id: str, transcript: str) -> None:
        """The words of a user's speech became known; nothing when the item is gone."""
        entry = self._log.get(item_id)
        if entry is not None and entry.message is not None and entry.state == "plain":
            written = sum(len(part.get("text", "")) for part in entry.message["content"])
            new = with_transcript(entry.message, transcript)
            self._show(entry, new, written + len(transcript))

    def add_message(
        self,
        item_id: str,
        role: Literal["user", "assistant", "system"],
        parts: Sequence[Mapping[str, Any]],
        *,
        after: str | None = None,
    ) -> Mapping[str, Any]:
        """Add a written item; one of the user's counts as unanswered.

        Args:
            item_id: its id.
            role: who speaks.
            parts: ``{"type": "text", "text"}`` or ``{"type": "image_url", "image_url": {"url"}}``.
            after: as for ``reserve``.

        Raises:
            RefusalError: ``input_backpressure``, too many pictures; nothing changed.
            KeyError: ``after`` names no item of the conversation.
        """
        urls = [part["image_url"]["url"] for part in parts if part.get("type") == "image_url"]
        if urls:
            self._log.admit_images(urls)
        entry = self._place(item_id, after)
        self._log.add_images(entry, urls)
        text = sum(len(part.get("text", "")) for part in parts)
        self._show(entry, message(role, parts), text)
        if role == "user":
            self._unanswered[item_id] = None
        return entry.message or ReadOnlyDict()

    def add_call(
        self, item_id: str, *, call_id: str, name: str, arguments: str, after: str | None = None
    ) -> None:
        """The assistant called a function."""
        entry = self._place(item_id, after)
        self._show(entry, call_message(call_id, name, arguments), len(name) + len(arguments))

    def add_call_output(
        self, item_id: str, *, call_id: str, output: str, after: str | None = None
    ) -> None:
        """The client returned what a function gave."""
        entry = self._place(item_id, after)
        self._show(entry, call_output_message(call_id, output), len(output))

    def delete(self, item_id: str) -> bool:
        """Remove an item with all that is kept of it, also one that is only reserved.

        Returns:
            Whether a message was removed.
        """
        entry = self._log.get(item_id)
        if entry is None:
            return False
        self._forget(item_id)
        return self._log.remove(entry)

    def mark_answered(self) -> None:
        """A response takes up all user items so far."""
        self._unanswered.clear()

    # Inside

    def _place(self, item_id: str, after: str | None) -> HistoryEntry:
        return self._log.place(item_id, after)

    def _show(self, entry: HistoryEntry, new: ReadOnlyDict | None, characters: int) -> None:
        said = 0 if entry.spoken is None else len(entry.spoken.text)
        for item_id in self._log.show(entry, new, max(characters, said)):
            self._forget(item_id)

    def _forget(self, item_id: str) -> None:
        """An item is gone, by its client's wish or to make room."""
        self._unanswered.pop(item_id, None)
