"""What a session knows of the user's turn under way, until it is committed and answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from duplex_sdk.plugin import AppendPiece

    from .reservations import Reservation

__all__ = ["MOST_RETAINED", "HeldSpeechStart", "RetainedPiece", "TurnInput"]

MOST_RETAINED = 1024
"""User items that may wait for an answer: of a turn of one sample the bytes are the least."""

_MOST_HEARD = 64


@dataclass(frozen=True, slots=True)
class HeldSpeechStart:
    """A ``speech_started`` not told yet: under sustained-speech barge-in a short acknowledgement
    must not stop a client's playback.
    """  # noqa: D205

    at_ms: int


@dataclass(frozen=True, slots=True)
class RetainedPiece:
    """Committed input that waits for its answer, with the bytes it occupies.

    ``item_id``: the user item that it stands in; empty for a unit that no commit covers yet.
    """

    piece: AppendPiece
    held: Reservation
    item_id: str = ""


@dataclass(slots=True)
class TurnInput:
    """Input since the last commit, and committed input that nothing has answered.

    Attributes:
        item_id: id the coming user item will have; None before an utterance began.
        utterance_open: speech began and has not ended.
        start_told: ``speech_started`` was sent and awaits its ``speech_stopped``.
        held_start: the start that is kept back.
        has_speech: some of the input was speech.
        had_silence: some of it was not.
        failed: an append of this turn failed; its commit is refused.
        overlap_speech_ms: speech over the response in progress.
        speech_ms: input since the last commit, in ms.
        clock_ms: the session's input clock: ms of audio appended since open.
        transcript_hint: what the client says was said.
        heard_text: what the model says was said, when it is sure before the commit.
        early: units the model has already heard and that no accepted commit covers yet.
        retained: committed input kept until it is answered.
        retained_items: the user items it stands in.
        heard_items: the last user items that the model has heard and was not asked to answer.
        answer_deferred: the retained input is to be answered when the response in progress ends.
    """

    item_id: str | None = None
    utterance_open: bool = False
    start_told: bool = False
    held_start: HeldSpeechStart | None = None
    has_speech: bool = False
    had_silence: bool = False
    failed: bool = False
    overlap_speech_ms: float = 0.0
    audio_ms: float = 0.0
    clock_ms: float = 0.0
    skipped_ms: float = 0.0
    transcript_hint: str | None = None
    heard_text: str | None = None
    early: list[RetainedPiece] = field(default_factory=list)
    retained: list[RetainedPiece] = field(default_factory=list)
    retained_items: list[str] = field(default_factory=list)
    heard_items: list[str] = field(default_factory=list)
    answer_deferred: bool = False

    @property
    def has_audio(self) -> bool:
        """Whether anything was appended since the last commit."""
        return self.has_speech or self.had_silence

    def begin_next(self) -> None:
        """The input was sealed or dropped: what follows belongs to a new item."""
        self.item_id = None
        self.start_told = False
        self.held_start = None
        self.has_speech = self.had_silence = self.failed = False
        self.audio_ms = 0.0
        self.transcript_hint = None
        self.heard_text = None

    def release_early(self) -> None:
        """Forget units that the model heard: their turn was accepted or dropped."""
        for kept in self.early:
            kept.held.release()
        self.early.clear()

    def release_retained(self) -> None:
        """Forget committed input that waited for its answer."""
        for kept in self.retained:
            kept.held.release()
        self.retained.clear()
        self.retained_items.clear()
        self.heard_items.clear()
        self.answer_deferred = False

    def heard(self, item_ids: Collection[str]) -> None:
        """The model has heard these items, and nobody asked it for an answer."""
        self.heard_items.extend(item_ids)
        del self.heard_items[:-_MOST_HEARD]

    def forget_item(self, item_id: str) -> None:
        """A user item was deleted: what is kept of it is never answered."""
        if item_id in self.heard_items:
            self.heard_items.remove(item_id)
        if item_id not in self.retained_items:
            return
        self.retained_items.remove(item_id)
        for kept in self.retained:
            if kept.item_id == item_id:
                kept.held.release()
        self.retained = [kept for kept in self.retained if kept.item_id != item_id]
        self.answer_deferred = self.answer_deferred and bool(self.retained_items)
