"""The user item that a commit makes, and the events that tell of it in their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from duplex_sdk.protocol.duplex import ContentPart, InputCommitted, Item, ItemAdded, ItemDone

from .history_entry import audio_message
from .state import TurnState

if TYPE_CHECKING:
    from .state import SessionState
    from .transcripts import Transcripts
    from .utterance import Utterance

__all__ = ["CommitItems", "Sealed"]


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a commit made of the open turn: its item, length and words known so far."""

    item_id: str
    seconds: float = 0.0
    heard: str | None = None
    hint: str | None = None


class CommitItems:
    """Puts what was said into the conversation, and tells of it.

    Args:
        state: the session.
        utterance: ends with the turn.
        transcripts: the words of committed items.
    """

    __slots__ = ("_state", "_transcripts", "_utterance")

    def __init__(self, state: SessionState, utterance: Utterance, transcripts: Transcripts) -> None:
        self._state = state
        self._utterance = utterance
        self._transcripts = transcripts

    def seal(self, *, no_response: bool = False, **flags: bool) -> str:
        """Make the open turn an item, say so, and begin the next turn.

        Args:
            no_response: nothing answers it by itself; told like ``flags``.
            flags: what else its ``committed`` event says where true.

        Returns:
            The item's id.
        """
        state = self._state
        turn = state.turn_input
        self._utterance.end()
        item_id = turn.item_id or state.ids.item()
        shown: dict[str, Any] = {name: True for name, on in flags.items() if on}
        if no_response:
            shown["no_response"] = True
        sealed = Sealed(item_id, turn.audio_ms / 1000, turn.heard_text, turn.transcript_hint)
        turn.begin_next()
        state.commit_seq += 1
        state.turn_state = TurnState.USER_COMMITTED
        self.tell(sealed, flags=shown)
        return item_id

    def tell(
        self,
        sealed: Sealed,
        *,
        flags: dict[str, Any],
        item: Item | None = None,
        after: str | None = None,
    ) -> None:
        """The events of a commit, in their order; of an item just sealed or of a client's own."""
        state = self._state
        item_id = sealed.item_id
        speech = flags.get("is_speech", True)
        known = sealed.heard or sealed.hint
        if item is None:
            part = ContentPart(type="input_audio", transcript=known or "")
            if not speech:
                part = msgspec.structs.replace(part, is_speech=False)
            item = Item(id=item_id, type="message", role="user", content=(part,))
        previous = state.items.add(item, after=after)
        state.emit(ItemAdded, previous_item_id=previous, item=item)
        self._remember(item, known if speech else None, speech=speech, after=after)
        state.emit(
            InputCommitted,
            previous_item_id=previous,
            item_id=item_id,
            event=self.details(item_id, flags),
        )
        if speech:
            self._transcripts.committed(
                item_id, sealed.seconds, heard=sealed.heard, hint=sealed.hint
            )
        # A place at the root of a full conversation is the first to be given up again.
        made = state.items.get(item_id) or item
        state.emit(ItemDone, previous_item_id=previous, item=made)

    def _remember(
        self, item: Item, transcript: str | None, *, speech: bool, after: str | None
    ) -> None:
        """Put what was said, and what a client wrote beside it, into history."""
        history = self._state.history
        after = after if after == "root" or (after is not None and after in history) else None
        written = [
            {"type": "text", "text": part.text}
            for part in item.content or ()
            if isinstance(part.text, str)
        ]
        if written:
            sound = audio_message(transcript)["content"] if speech else ()
            history.add_message(item.id, "user", [*written, *sound], after=after)
        elif speech:
            history.add_user_audio(item.id, transcript=transcript, after=after)

    def details(self, item_id: str, flags: dict[str, Any]) -> dict[str, Any]:
        """What ``input_audio_buffer.committed`` says beside the id."""
        state = self._state
        message = state.history.message(item_id)
        return {
            "type": "input.committed",
            "session_id": state.session_id,
            "turn_id": state.turn_id,
            "epoch": state.epoch,
            "history_len": len(state.history),
            "message": None if message is None else msgspec.to_builtins(message),
            "realtime_item_id": item_id,
            **flags,
        }
