"""Entries of a conversation in order, within bounds, with one cached view for its readers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duplex_sdk.plugin.read_only import ReadOnlyDict

from .history_entry import HistoryEntry
from .refusal import RefusalError

__all__ = ["ENTRY_COST", "ROOT", "HistoryLimits", "MessageLog"]

ENTRY_COST = 256
"""Characters that an entry counts for beside its text: silence too must not grow without end."""

ROOT = "root"
"""What a client names to put an item first."""


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """Bounds of one conversation.

    Attributes:
        characters: text and image URLs of all entries, and ``ENTRY_COST`` for each; beyond it the
            oldest are forgotten.
        responses: finished responses that keep their alignment.
        images: pictures in the conversation.
        image_characters: characters of all their URLs.
    """

    characters: int = 8 * 1024 * 1024
    responses: int = 64
    images: int = 8
    image_characters: int = 4 * 1024 * 1024


class MessageLog:
    """Places in order; one without a message is only reserved and nobody sees it."""

    __slots__ = (
        "_by_id",
        "_entries",
        "_image_chars",
        "_images",
        "_limits",
        "_size",
        "_version",
        "_view",
    )

    def __init__(self, limits: HistoryLimits) -> None:
        self._limits = limits
        self._entries: list[HistoryEntry] = []
        self._by_id: dict[str, HistoryEntry] = {}
        self._view: tuple[Mapping[str, Any], ...] | None = ()
        self._version = 0
        self._size = 0
        self._images = 0
        self._image_chars = 0

    @property
    def version(self) -> int:
        """Grows with every change of what ``messages`` shows."""
        return self._version

    @property
    def size(self) -> int:
        """Characters held."""
        return self._size

    def messages(self) -> tuple[Mapping[str, Any], ...]:
        """All messages in order; the same object until the next change."""
        if self._view is None:
            self._view = tuple(e.message for e in self._entries if e.message is not None)
        return self._view

    def messages_without(self, item_ids: Collection[str]) -> tuple[Mapping[str, Any], ...]:
        """All messages in order but those of some items."""
        return tuple(
            e.message for e in self._entries if e.message is not None and e.item_id not in item_ids
        )

    def get(self, item_id: str) -> HistoryEntry | None:
        """The entry of an item, reserved or filled."""
        return self._by_id.get(item_id)

    def place(self, item_id: str, after: str | None = None) -> HistoryEntry:
        """The entry of an item, which is made if there is none.

        Args:
            item_id: of the item.
            after: where a new one goes: behind this item, ``"root"`` first, None last.

        Raises:
            KeyError: ``after`` names no item.
        """
        entry = self._by_id.get(item_id)
        if entry is None:
            entry = HistoryEntry(item_id, size=ENTRY_COST)
            self._size += ENTRY_COST
            self._entries.insert(self._position(after), entry)
            self._by_id[item_id] = entry
        return entry

    def show(
        self, entry: HistoryEntry, message: ReadOnlyDict | None, characters: int
    ) -> tuple[str, ...]:
        """Fill a place, change what it says, or (None) empty it.

        Args:
            entry: of this log.
            message: what a model reads from now on.
            characters: how much memory that stands for.

        Returns:
            Ids of items that were forgotten to make room.
        """
        size = ENTRY_COST + characters + entry.image_chars
        self._size += size - entry.size
        entry.size = size
        if message != entry.message:
            entry.message = message
            self._changed()
        return self._forget_oldest(keep=entry)

    def remove(self, entry: HistoryEntry) -> bool:
        """Take a place out.

        Returns:
            Whether it held a message.
        """
        # By identity: entries do not compare by what they say.
        self._entries.remove(entry)
        del self._by_id[entry.item_id]
        self._size -= entry.size
        self._images -= entry.images
        self._image_chars -= entry.image_chars
        if entry.message is None:
            return False
        self._changed()
        return True

    def admit_images(self, urls: Sequence[str]) -> None:
        """Check that so many more pictures fit.

        Raises:
            RefusalError: ``input_backpressure``.
        """
        limits = self._limits
        characters = self._image_chars + sum(map(len, urls))
        if self._images + len(urls) > limits.images or characters > limits.image_characters:
            raise RefusalError(
                "input_backpressure",
                f"a conversation holds at most {limits.images} images of "
                f"{limits.image_characters} characters in all",
                param="item.content",
            )

    def add_images(self, entry: HistoryEntry, urls: Sequence[str]) -> None:
        """Account an entry's pictures."""
        characters = sum(map(len, urls))
        self._images += len(urls) - entry.images
        self._image_chars += characters - entry.image_chars
        entry.images = len(urls)
        entry.image_chars = characters

    def _position(self, after: str | None) -> int:
        if after is None:
            return len(self._entries)
        if after == ROOT:
            return 0
        return self._entries.index(self._by_id[after]) + 1

    def _changed(self) -> None:
        self._version += 1
        self._view = None

    def _forget_oldest(self, keep: HistoryEntry) -> tuple[str, ...]:
        forgotten = []
        while self._size > self._limits.characters:
            oldest = next((e for e in self._entries if e is not keep and e.forgettable), None)
            if oldest is None:
                break
            self.remove(oldest)
            forgotten.append(oldest.item_id)
        return tuple(forgotten)
