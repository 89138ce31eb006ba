"""Partial transcripts that only grow, out of guesses that change their mind."""

from __future__ import annotations

import re

__all__ = ["GrowingTranscript"]

_BARE = re.compile(r"[^\w]+")


# How many of the last shown words find the place in a new guess, and how far it may have moved
# because words were split or joined.
_ANCHOR = 3
_SHIFTS = (0, -1, 1, -2, 2)


class GrowingTranscript:
    """Shows a word once two guesses in a row agree on it, after what was shown before.

    A guess that changes words already shown takes nothing back: the new words go behind the place
    where the last shown ones stand in it. The last word of a guess is often cut off by the end of
    the audio and is never shown; nor is the punctuation behind the last word shown, because more
    words change it.
    """

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._previous: list[str] = []

    @property
    def shown(self) -> str:
        """All that was shown."""
        return " ".join(self._shown)

    def clear(self) -> None:
        """Begin a new turn."""
        self._shown = []
        self._previous = []

    def grow(self, guess: str) -> str:
        """Take the next guess about the whole turn.

        Returns:
            The new words to show, with the space that joins them; often "".
        """
        words = guess.split()
        before, now = self._place_in(self._previous), self._place_in(words)
        previous, self._previous = self._previous, words
        if before is None or now is None:
            return ""
        new = words[now : now + _agreement(previous[before:], words[now:-1])]
        if not new:
            return ""
        joint = " " if self._shown else ""
        new[-1] = new[-1].rstrip(".,!?;:")
        self._shown.extend(new)
        return joint + " ".join(new)

    def _place_in(self, words: list[str]) -> int | None:
        """Where the words after the shown ones begin; None where those cannot be found."""
        shown = len(self._shown)
        if not shown:
            return 0
        best, place = 0, None
        for shift in _SHIFTS:
            end = shown + shift
            score = sum(
                _alike(self._shown[shown - back], words[end - back])
                for back in range(1, min(_ANCHOR, shown) + 1)
                if 0 <= end - back < len(words)
            )
            if score > best and end <= len(words):
                best, place = score, end
        return place


def _agreement(left: list[str], right: list[str]) -> int:
    """How many words the two begin with alike."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if not _alike(one, other):
            break
        count += 1
    return count


def _alike(one: str, other: str) -> bool:
    """The same word, apart from case and punctuation."""
    return _BARE.sub("", one).lower() == _BARE.sub("", other).lower()
