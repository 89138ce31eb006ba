"""The conversation as the client sees it: items in order, each with the one before it."""

from __future__ import annotations

from collections.abc import Iterator

from duplex_sdk.protocol.duplex import Item

from .message_log import ROOT

__all__ = ["ConversationItems"]


ITEM_COST = 256
"""Characters that an item counts for beside its text."""


class ConversationItems:
    """Items in chronological order, linked, so that every operation takes constant time.

    Beyond ``limit`` characters the oldest are forgotten, never the newest: a conversation without
    end takes no memory without end.
    """

    __slots__ = ("_after", "_before", "_held", "_items", "_last", "_limit", "_size")

    def __init__(self, limit: int = 8 * 1024 * 1024) -> None:
        self._limit = limit
        self._size = 0
        self._items: dict[str, Item] = {}
        self._before: dict[str, str | None] = {}
        self._after: dict[str | None, str | None] = {None: None}
        self._last: str | None = None
        # A tuple, which is empty nearly always: an empty set takes 216 bytes per session.
        self._held: tuple[str, ...] = ()

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        item_id = self._after[None]
        while item_id is not None:
            yield self._items[item_id]
            item_id = self._after[item_id]

    @property
    def last_id(self) -> str | None:
        """Id of the newest item, None when there is none."""
        return self._last

    def get(self, item_id: str) -> Item | None:
        """The item as it now stands."""
        return self._items.get(item_id)

    def previous_id(self, item_id: str) -> str | None:
        """Id of the item before this one, None for the first."""
        return self._before[item_id]

    def add(self, item: Item, *, after: str | None = None) -> str | None:
        """Put an item at the end, behind ``after``, or first when ``after`` is ``"root"``.

        Returns:
            The id of the item before it.

        Raises:
            KeyError: ``after`` names no item.
            ValueError: the id is taken.
        """
        if item.id in self._items:
            raise ValueError(f"an item {item.id!r} exists already")
        previous = self._position(after)
        following = self._after[previous]
        self._items[item.id] = item
        self._before[item.id] = previous
        self._after[item.id] = following
        self._after[previous] = item.id
        if following is None:
            self._last = item.id
        else:
            self._before[following] = item.id
        self._size += _size(item)
        self._forget_oldest()
        return previous

    def hold(self, item_id: str) -> None:
        """It is still being made: it is not forgotten to make room."""
        self._held = (*self._held, item_id)

    def let_go(self, item_id: str) -> None:
        """It is made; nothing when nobody held it."""
        if self._held:
            self._held = tuple(each for each in self._held if each != item_id)

    def _forget_oldest(self) -> None:
        oldest = self._after[None]
        while self._size > self._limit and oldest is not None and oldest != self._last:
            following = self._after[oldest]
            if oldest not in self._held:
                self.remove(oldest)
            oldest = following

    def _position(self, after: str | None) -> str | None:
        if after is None:
            return self._last
        if after == ROOT:
            return None
        if after not in self._items:
            raise KeyError(after)
        return after

    def replace(self, item: Item) -> None:
        """Exchange an item for a newer state of itself.

        Raises:
            KeyError: there is no such item.
        """
        if item.id not in self._items:
            raise KeyError(item.id)
        self._size += _size(item) - _size(self._items[item.id])
        self._items[item.id] = item

    def remove(self, item_id: str) -> Item:
        """Take an item out.

        Raises:
            KeyError: there is no such item.
        """
        item = self._items.pop(item_id)
        self._size -= _size(item)
        previous = self._before.pop(item_id)
        following = self._after.pop(item_id)
        self._after[previous] = following
        if following is None:
            self._last = previous
        else:
            self._before[following] = previous
        return item


def _size(item: Item) -> int:
    texts: list[object] = [item.output, item.arguments]
    for part in item.content or ():
        texts += [part.text, part.transcript]
    return ITEM_COST + sum(len(text) for text in texts if isinstance(text, str))
