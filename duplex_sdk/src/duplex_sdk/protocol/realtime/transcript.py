"""How many words of an answer were heard: the one estimate, for history and items alike."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from .items import AudioTextMark

__all__ = ["RisingMarks", "transcript_prefix"]


class RisingMarks:
    """Alignment of a transcript with its audio, kept in order: asking costs no more as it grows.

    Marks rise in both coordinates; one that falls behind those before it is raised to them. Of more
    than ``most``, every second of the older half is forgotten, and what lies between is
    interpolated: an answer without end takes no memory without end. Not thread-safe.
    """

    __slots__ = ("_chars", "_ends_ms", "_most")

    def __init__(self, marks: Iterable[AudioTextMark] = (), *, most: int | None = None) -> None:
        self._ends_ms: list[float] = []
        self._chars: list[int] = []
        self._most = most
        for mark in marks:
            self.add(mark)

    def __len__(self) -> int:
        return len(self._ends_ms)

    def add(self, mark: AudioTextMark) -> None:
        """Take in one more mark; constant time for one at the end, where nearly all belong."""
        end_ms = max(0, mark.audio_end_ms)
        place = bisect_right(self._ends_ms, end_ms)
        before = self._chars[place - 1] if place else 0
        chars = max(before, mark.text_chars)
        self._ends_ms.insert(place, end_ms)
        self._chars.insert(place, chars)
        for later in range(place + 1, len(self._chars)):
            self._chars[later] = max(self._chars[later], chars)
        if self._most is not None and len(self._chars) > self._most:
            older = len(self._chars) // 2
            del self._ends_ms[:older:2], self._chars[:older:2]

    def chars_at(self, position_ms: float, *, length: int, audio_ms: float) -> int:
        """Characters spoken by a position, of a text of so many in audio so long."""
        if not position_ms > 0:
            return 0
        if position_ms >= audio_ms:
            return length
        place = bisect_right(self._ends_ms, position_ms)
        start = self._mark(place - 1, length) if place else (0.0, 0)
        end = self._mark(place, length) if place < len(self._ends_ms) else (audio_ms, length)
        return _between(*start, *end, position_ms)

    def _mark(self, place: int, length: int) -> tuple[float, int]:
        return self._ends_ms[place], min(length, self._chars[place])


def transcript_prefix(
    text: str,
    marks: Sequence[AudioTextMark] | RisingMarks,
    audio_ms: float,
    position_ms: float,
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
    rising = marks if isinstance(marks, RisingMarks) else RisingMarks(marks)
    return text[: rising.chars_at(position_ms, length=len(text), audio_ms=audio_ms)].rstrip()


def _between(
    start_ms: float, start_chars: int, end_ms: float, end_chars: int, position_ms: float
) -> int:
    span_ms = end_ms - start_ms
    if span_ms <= 0:
        return end_chars
    # Multiplied before divided: 10 characters over 10 s are exactly 4 at 4 s.
    gained = (end_chars - start_chars) * (position_ms - start_ms) / span_ms
    return start_chars + math.floor(gained)
