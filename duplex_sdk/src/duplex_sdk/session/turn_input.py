"""What a session knows of the user's turn under way, until it is committed and answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duplex_sdk.plugin import AppendPiece

    from .reservations import Reservation

__all__ = ["HeldSpeechStart", "RetainedPiece", "TurnInput"]


@dataclass(frozen=True, slots=True)
class HeldSpeechStart:
    """A ``speech_started`` not told yet: under sustained-speech barge-in a short acknowledgement
    must not stop a client's playback.
    """  # noqa: D205

    at_ms: int


@dataclass(frozen=True, slots=True)
class RetainedPiece:
    """Committed input that waits for its answer, with the bytes it occupies."""

    piece: AppendPiece
    held: Reservation


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
        heard_unanswered: the model has heard a committed turn that asked for no answer.
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
    heard_unanswered: bool = False
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
        self.heard_unanswered = False
        self.answer_deferred = False
