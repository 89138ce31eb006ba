"""The conversation as the model remembers it: ordered, and true to what was heard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .ack_target import ITEM_PREFIX
from .history_entry import HistoryEntry, assistant_message
from .history_items import HistoryItems
from .message_log import ROOT, HistoryLimits, MessageLog
from .spoken_text import SpokenText, acked_text, cancelled_text, done_text, live_text

if TYPE_CHECKING:
    from .playback import PlaybackCommitPolicy, PlaybackCursor

__all__ = ["ROOT", "ConversationHistory", "HistoryLimits", "HistoryText"]


@dataclass(frozen=True, slots=True)
class HistoryText:
    """What an item says now.

    Attributes:
        text: the words that the item must show.
        committed: the model's history holds text of this item.
    """

    text: str
    committed: bool


class ConversationHistory(HistoryItems):
    """Entries in the order of user commits and response openings.

    A response reserves its place when it opens; what is heard later fills that place and moves
    nothing. Places without a message are invisible. All cuts are made of the whole text that was
    said, so that repeated cuts never add up.
    """

    __slots__ = ("_early_caps", "_finished", "_retained")

    def __init__(self, limits: HistoryLimits | None = None) -> None:
        limits = limits or HistoryLimits()
        super().__init__(MessageLog(limits))
        self._retained = limits.responses
        self._finished: dict[str, None] = {}
        self._early_caps: dict[str, float] = {}

    # Responses

    def open_response(self, response_id: str, *, after: str | None = None) -> None:
        """Reserve the place of a response's item. Not for one outside the conversation."""
        entry = self._place(f"{ITEM_PREFIX}{response_id}", after)
        entry.state = "open"

    def end_response(
        self,
        response_id: str,
        spoken: SpokenText,
        cursor: PlaybackCursor,
        policy: PlaybackCommitPolicy,
        status: Literal["completed", "incomplete", "cancelled", "failed"],
    ) -> HistoryText | None:
        """A response is over: its words enter as far as policy and playback allow.

        Returns:
            What the item says; None for a response without a place (deleted, out of band).
        """
        entry = self._response(response_id)
        if entry is None:
            return None
        entry.spoken = spoken
        if status == "failed":
            entry.state = "failed"
            text = spoken.text
        elif status == "cancelled":
            entry.state = "cancelled"
            text = cancelled_text(spoken, cursor, policy)
        else:
            entry.state = "done"
            text = done_text(spoken, cursor, policy)
        self._retain(entry)
        return self._set_text(entry, text)

    def acknowledge(
        self,
        response_id: str,
        cursor: PlaybackCursor,
        policy: PlaybackCommitPolicy,
        *,
        live: SpokenText | None = None,
    ) -> HistoryText | None:
        """The cursor has moved by the client's word: the item says what was heard.

        Args:
            response_id: which.
            cursor: after the acknowledgement.
            policy: the session's.
            live: what an open response has said so far.

        Returns:
            What the item says; None where nothing is known of the response.
        """
        entry = self._response(response_id)
        if entry is None:
            return None
        if entry.state == "open":
            if live is None:
                return None
            entry.spoken = live
            return self._set_text(entry, live_text(live, cursor))
        if entry.spoken is None or entry.state == "failed":
            return HistoryText(entry.shown, committed=False)
        if entry.state == "cancelled":
            return self._set_text(entry, cancelled_text(entry.spoken, cursor, policy))
        return self._set_text(entry, acked_text(entry.spoken, cursor, policy, entry.shown))

    def cut_at_heard(
        self, response_id: str, cursor: PlaybackCursor, policy: PlaybackCommitPolicy
    ) -> HistoryText | None:
        """Playback of a finished response was stopped, or its sent audio grew less.

        A soft cut: a later acknowledgement or truncation decides anew.

        Returns:
            What the item says; None where nothing is known of the response.
        """
        entry = self._response(response_id)
        if entry is None or entry.spoken is None or entry.state not in ("done", "cancelled"):
            return None
        entry.state = "cancelled"
        return self._set_text(entry, cancelled_text(entry.spoken, cursor, policy))

    def truncate(
        self, item_id: str, position_ms: float, *, live: SpokenText | None = None
    ) -> HistoryText | None:
        """Cut a response's item for good; of several cuts the smallest holds.

        Args:
            item_id: of the item; one that does not exist yet is cut when it comes.
            position_ms: in its audio.
            live: what an open response has said so far.

        Returns:
            What the item says; None where nothing is known of it (yet).
        """
        entry = self._log.get(item_id)
        if entry is None:
            self._remember_cap(item_id, position_ms)
            return None
        entry.lower_cap(position_ms)
        if entry.state == "open" and live is not None:
            entry.spoken = live
            return HistoryText(entry.limit(live.text), committed=self._recut(entry))
        if entry.spoken is None:
            return None
        return HistoryText(entry.limit(entry.shown), committed=self._recut(entry))

    def discard_response(self, response_id: str) -> None:
        """The response failed after all: what entered of it is taken out."""
        entry = self._response(response_id)
        if entry is not None:
            entry.state = "failed"
            self._show(entry, None, 0)

    def forget_alignment(self, response_id: str) -> None:
        """Its playback is settled: a later truncation is proportional."""
        entry = self._response(response_id)
        if entry is not None and entry.spoken is not None:
            entry.spoken = entry.spoken.without_marks()
        self._finished.pop(response_id, None)

    # Inside

    def _response(self, response_id: str) -> HistoryEntry | None:
        return self._log.get(f"{ITEM_PREFIX}{response_id}")

    def _place(self, item_id: str, after: str | None) -> HistoryEntry:
        entry = super()._place(item_id, after)
        cap = self._early_caps.pop(item_id, None)
        if cap is not None:
            entry.lower_cap(cap)
        return entry

    def _set_text(self, entry: HistoryEntry, text: str) -> HistoryText:
        entry.shown = entry.limit(text)
        committed = bool(entry.shown) and entry.state != "failed"
        self._show(entry, assistant_message(entry.shown) if committed else None, len(entry.shown))
        return HistoryText(entry.shown, committed)

    def _recut(self, entry: HistoryEntry) -> bool:
        return self._set_text(entry, entry.shown).committed

    def _forget(self, item_id: str) -> None:
        super()._forget(item_id)
        self._finished.pop(item_id.removeprefix(ITEM_PREFIX), None)

    def _retain(self, entry: HistoryEntry) -> None:
        self._finished[entry.item_id.removeprefix(ITEM_PREFIX)] = None
        while len(self._finished) > self._retained:
            self.forget_alignment(next(iter(self._finished)))

    def _remember_cap(self, item_id: str, position_ms: float) -> None:
        position = max(0.0, position_ms)
        self._early_caps[item_id] = min(position, self._early_caps.pop(item_id, position))
        if len(self._early_caps) > self._retained:
            del self._early_caps[next(iter(self._early_caps))]
