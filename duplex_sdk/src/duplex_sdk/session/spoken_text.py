"""How much of a response's text the conversation remembers, from what was heard of its audio."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import AudioTextMark, RisingMarks, transcript_prefix

if TYPE_CHECKING:
    from .playback import PlaybackCommitPolicy, PlaybackCursor

__all__ = ["SpokenText", "acked_text", "cancelled_text", "done_text", "live_text"]


@dataclass(frozen=True, slots=True)
class SpokenText:
    """The words of a response and where they lie in its audio.

    Attributes:
        text: all of them.
        marks: alignment, cumulative; empty means evenly spread. That of an open response still
            grows: what lies beyond the text is no part of it.
        audio_ms: length of the audio.
        written: the response has no audio by intention; its text is seen, not heard.
    """

    text: str
    marks: RisingMarks | tuple[AudioTextMark, ...] = ()
    audio_ms: float = 0.0
    written: bool = False

    def prefix(self, position_ms: float) -> str:
        """The words up to a position in the audio."""
        return transcript_prefix(self.text, self.marks, self.audio_ms, position_ms)

    def without_marks(self) -> SpokenText:
        """The same in less memory; cuts become proportional."""
        return replace(self, marks=())


def done_text(spoken: SpokenText, cursor: PlaybackCursor, policy: PlaybackCommitPolicy) -> str:
    """What a response that ran to its end leaves in the conversation."""
    commit_all = policy == "commit_all_on_done"
    if cursor.text_requires_complete_audio:
        heard_whole = cursor.audio_complete and cursor.audio_ms > 0 and cursor.complete
        return spoken.text if commit_all or heard_whole else ""
    if spoken.audio_ms <= 0 or cursor.complete:
        return spoken.text
    if cursor.committed_ms <= 0:
        return spoken.text if commit_all else ""
    return spoken.prefix(cursor.committed_ms)


def cancelled_text(spoken: SpokenText, cursor: PlaybackCursor, policy: PlaybackCommitPolicy) -> str:
    """What a response that was cut short leaves: the words that were heard."""
    if spoken.written:
        return spoken.text
    if cursor.text_requires_complete_audio and policy == "ack_only":
        return done_text(spoken, cursor, policy) if spoken.audio_ms > 0 else ""
    if cursor.complete:
        return spoken.text
    return spoken.prefix(cursor.heard_ms(policy))


def acked_text(
    spoken: SpokenText, cursor: PlaybackCursor, policy: PlaybackCommitPolicy, shown: str
) -> str:
    """What an acknowledgement makes of a response that ran to its end.

    Under ``commit_all_on_done`` an acknowledgement may lengthen ``shown``, never shorten it.
    """
    text = done_text(spoken, cursor, policy)
    if policy == "commit_all_on_done" and len(shown) > len(text):
        return shown
    return text


def live_text(spoken: SpokenText, cursor: PlaybackCursor) -> str:
    """The words acknowledged of a response that still goes on."""
    if spoken.written or cursor.text_requires_complete_audio:
        return ""
    return spoken.prefix(cursor.committed_ms)
