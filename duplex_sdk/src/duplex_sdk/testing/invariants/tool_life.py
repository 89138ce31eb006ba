"""What has been seen of a session's function calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from duplex_sdk.protocol.duplex import (
    DuplexEvent,
    FunctionCallArgumentsDone,
    ItemAdded,
    ItemDeleted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ToolLife", "answered_in"]


def answered_in(events: Iterable[DuplexEvent]) -> set[str]:
    """The calls whose results these events tell of."""
    items = [event.item for event in events if type(event) is ItemAdded]
    return {str(item.call_id) for item in items if item.type == "function_call_output"}


@dataclass(slots=True)
class ToolLife:
    """Function calls by their id, as the session's client knows them.

    Attributes:
        finished: calls that were told to their last argument.
        answered: calls whose result was taken.
        deleted: calls whose item was deleted while they had no result.
        items: the call of each item.
    """

    TAKES: ClassVar = (FunctionCallArgumentsDone, ItemAdded, ItemDeleted)

    finished: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    items: dict[str, str] = field(default_factory=dict)

    @property
    def open(self) -> set[str]:
        """Calls that wait for their result."""
        return self.finished - self.answered - self.deleted

    def take(self, event: DuplexEvent) -> None:
        """More was told, of one of the types in ``TAKES``."""
        if type(event) is FunctionCallArgumentsDone:
            self.finished.add(event.call_id)
        elif type(event) is ItemAdded:
            self._added(event)
        elif type(event) is ItemDeleted and event.item_id in self.items:
            call = self.items[event.item_id]
            if call not in self.answered:
                self.deleted.add(call)

    def _added(self, event: ItemAdded) -> None:
        item = event.item
        if item.type == "function_call":
            self.items[item.id] = str(item.call_id)
        elif item.type == "function_call_output":
            self.answered.add(str(item.call_id))
