"""How many words of an answer were heard: the one estimate, for history and items alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .items import AudioTextMark

__all__ = ["transcript_prefix"]


def transcript_prefix(
    text: str, marks: Sequence[AudioTextMark], audio_ms: float, position_ms: float
) -> str:
    """The part of a transcript that is spoken by a position in its audio.

    An estimate: linear between marks, proportional to the duration without any. Grows with the
    position and never beyond the text.

    Args:
        text: the whole transcript.
        marks: what is known of its timing, in any order.
        audio_ms: length of the audio.
        position_ms: where the listener stopped.

    Returns:
        A prefix of ``text`` without trailing white space; empty at 0 and before.
    """
    return text[: _spoken_chars(len(text), marks, audio_ms, position_ms)].rstrip()


def _spoken_chars(
    length: int, marks: Sequence[AudioTextMark], audio_ms: float, position_ms: float
) -> int:
    if not position_ms > 0:
        return 0
    if position_ms >= audio_ms:
        return length
    start_ms, start_chars = 0.0, 0
    for end_ms, end_chars in _rising(marks, length):
        if position_ms < end_ms:
            return _between(start_ms, start_chars, end_ms, end_chars, position_ms)
        start_ms, start_chars = end_ms, end_chars
    return _between(start_ms, start_chars, audio_ms, length, position_ms)


def _rising(marks: Sequence[AudioTextMark], length: int) -> list[tuple[float, int]]:
    rising: list[tuple[float, int]] = []
    chars = 0
    for mark in sorted(marks, key=lambda mark: mark.audio_end_ms):
        chars = min(length, max(chars, mark.text_chars))
        rising.append((max(0, mark.audio_end_ms), chars))
    return rising


def _between(
    start_ms: float, start_chars: int, end_ms: float, end_chars: int, position_ms: float
) -> int:
    span_ms = end_ms - start_ms
    if span_ms <= 0:
        return end_chars
    # Multiplied before divided: 10 characters over 10 s are exactly 4 at 4 s.
    gained = (end_chars - start_chars) * (position_ms - start_ms) / span_ms
    return start_chars + math.floor(gained)
