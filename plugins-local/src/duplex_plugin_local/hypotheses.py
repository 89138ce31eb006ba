"""Partial transcripts that only grow, out of guesses that change their mind."""

from __future__ import annotations

import re

__all__ = ["GrowingTranscript"]

_BARE = re.compile(r"[^\w]+")


class GrowingTranscript:
    """Shows a word once two guesses in a row agree on it and on all before it.

    The last word of a guess is often cut off by the end of the audio and is never shown; nor is
    the punctuation behind the last word shown, because more words change it.
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
        agreed = _agreement(self._previous, words[:-1])
        self._previous = words
        shown = len(self._shown)
        if agreed <= shown or _agreement(self._shown, words) < shown:
            return ""
        new = words[shown:agreed]
        new[-1] = new[-1].rstrip(".,!?;:")
        self._shown.extend(new)
        return (" " if shown else "") + " ".join(new)


def _agreement(left: list[str], right: list[str]) -> int:
    """How many words the two begin with alike, apart from case and punctuation."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if _BARE.sub("", one).lower() != _BARE.sub("", other).lower():
            break
        count += 1
    return count
