"""What the model heard of the user, told as it becomes known and once in full per item."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from duplex_sdk.protocol.duplex import InputTranscriptionCompleted, InputTranscriptionDelta

if TYPE_CHECKING:
    from duplex_sdk.stage import StageOutput

    from .state import SessionState

__all__ = ["Transcripts"]

MAX_AWAITED = 16
"""Committed items that may wait for their words; a model that never says them costs no memory."""


class Transcripts:
    """Matches what stages say they heard with the items it belongs to: oldest item first."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._awaited: deque[tuple[str, float]] = deque(maxlen=MAX_AWAITED)
        self._early_final: str | None = None

    def heard(self, output: StageOutput) -> None:
        """A stage says what it heard: a new piece, or the whole turn."""
        text = output.user_text or ""
        if output.user_text_final:
            self._final(text)
        elif text:
            self._piece(text)

    def _piece(self, text: str) -> None:
        item_id = self._awaited[0][0] if self._awaited else self._announced_item()
        if item_id is not None:
            self._state.emit(InputTranscriptionDelta, item_id=item_id, delta=text)

    def _announced_item(self) -> str | None:
        """The item under way, once the client knows that there is one."""
        turn = self._state.turn_input
        return turn.item_id if turn.held_start is None else None

    def _final(self, text: str) -> None:
        if self._awaited:
            item_id, seconds = self._awaited.popleft()
            self.complete(item_id, text, seconds)
        else:
            # The model was sure before the commit: the words wait for their item.
            self._early_final = text

    def committed(self, item_id: str, seconds: float, hint: str | None) -> str | None:
        """An item was committed.

        Returns:
            Its words if they are known already; else they come later.
        """
        known = self._early_final or hint
        self._early_final = None
        if known is None:
            self._awaited.append((item_id, seconds))
        return known

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

    def forget_turn(self) -> None:
        """The turn under way was dropped."""
        self._early_final = None
