"""What the model heard of the user, told as it becomes known and once in full per item."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from duplex_sdk.protocol.duplex import InputTranscriptionCompleted, InputTranscriptionDelta

from .response import MOST_TEXT, fitting

if TYPE_CHECKING:
    from duplex_sdk.stage import StageOutput

    from .state import SessionState

__all__ = ["Transcripts"]

MAX_AWAITED = 16
"""Committed items that may wait for their words; a model that never says them costs no memory."""


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A committed item whose words the model has not said; ``told``: the client knew them."""

    item_id: str
    seconds: float
    told: bool


class Transcripts:
    """Matches what stages say they heard with the items it belongs to: oldest item first."""

    __slots__ = ("_awaited", "_state")

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._awaited: list[_Awaited] = []

    def heard(self, output: StageOutput) -> None:
        """A stage says what it heard: a new piece, or the whole turn."""
        text = fitting(output.user_text or "", MOST_TEXT)
        if output.user_text_final:
            self._final(text)
        elif text:
            self._piece(text)

    def _piece(self, text: str) -> None:
        item_id = self._awaited[0].item_id if self._awaited else self._announced_item()
        if item_id is not None:
            self._state.emit(InputTranscriptionDelta, item_id=item_id, delta=text)

    def _announced_item(self) -> str | None:
        """The item under way, once the client knows that there is one."""
        turn = self._state.turn_input
        return turn.item_id if turn.held_start is None else None

    def _final(self, text: str) -> None:
        if not self._awaited:
            # The model was sure before the commit: the words wait for their item.
            self._state.turn_input.heard_text = text
            return
        awaited = self._awaited.pop(0)
        if not awaited.told:
            self.complete(awaited.item_id, text, awaited.seconds)

    def committed(
        self, item_id: str, seconds: float, *, heard: str | None, hint: str | None
    ) -> None:
        """An item was committed: tell its words if they are known, else they come later.

        Args:
            item_id: the item.
            seconds: its length.
            heard: what the model heard before the commit.
            hint: what the client says was said.
        """
        known = heard or hint
        if heard is None:
            self._awaited.append(_Awaited(item_id, seconds, told=bool(known)))
            del self._awaited[:-MAX_AWAITED]
        if known:
            self.complete(item_id, known, seconds)

    def merged(self, item_ids: Sequence[str]) -> None:
        """Several items go to the model as one: its words for them come with the last."""
        gone = frozenset(item_ids[:-1])
        if gone:
            self._keep(lambda item_id: item_id not in gone)

    def keep_only(self, item_ids: Collection[str]) -> None:
        """An epoch ended: of all other items the model will say nothing any more."""
        self._keep(lambda item_id: item_id in item_ids)

    def _keep(self, wanted: Callable[[str], bool]) -> None:
        self._awaited = [each for each in self._awaited if wanted(each.item_id)]

    def complete(self, item_id: str, text: str, seconds: float) -> None:
        """Tell the words of an item, and show them in it from now on."""
        state = self._state
        if not text or item_id not in state.items:
            return
        state.history.set_transcript(item_id, text)
        self._show(item_id, text)
        state.emit(
            InputTranscriptionCompleted,
            item_id=item_id,
            transcript=text,
            usage={"type": "duration", "seconds": round(seconds, 3)},
        )

    def _show(self, item_id: str, text: str) -> None:
        item = self._state.items.get(item_id)
        if item is None or not item.content:
            return
        content = tuple(
            msgspec.structs.replace(part, transcript=text) if part.type == "input_audio" else part
            for part in item.content
        )
        self._state.items.replace(msgspec.structs.replace(item, content=content))
