"""The voice: Hibari, one sentence at a time, with the time at which each word ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from duplex_sdk.stage import StageLoadError

from .model_files import HIBARI, VOICE_FILES, checked, package_folder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["SpokenSentence", "Voice"]

RATE = 24_000
# The model surrounds each sentence with about 0.3 s of silence in front and 0.5 s behind. In front
# it is pure delay; behind, a short rest makes a natural pause.
_LEAD_MS = 20
_REST_MS = 180
_SILENT = 0.004
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class SpokenSentence:
    """Speech of one sentence.

    Attributes:
        samples: mono float32 at 24 kHz.
        word_ends: for each word the number of characters up to its end, and the ms at which it has
            been spoken. Inside a sentence the times are shared out by the length of the words'
            pronunciation: within about a tenth of a second of the truth.
    """

    samples: NDArray[np.float32]
    word_ends: tuple[tuple[int, float], ...]


class Voice:
    """Speaks English. Not for two threads at once; the same text gives the same samples."""

    rate = RATE

    def __init__(self, folder: Path | None = None) -> None:
        """Check and load the voice inside the package; no other voice is ever fetched.

        Args:
            folder: the package's folder; None: where it is installed.

        Raises:
            StageLoadError: it is missing, wrong or not loadable.
        """
        package, requirement = HIBARI
        path = checked(folder or package_folder(package, requirement), VOICE_FILES, requirement)
        try:
            from hibari import Hibari

            self._model = Hibari(model=str(path["voice"]), threads=1)
            self._model("Ready.")
        except Exception as error:
            # Whatever the package or its runtime raises: it does not work, and this says so.
            raise StageLoadError(
                f"the voice cannot be loaded: {error}",
                hint=f"pip install --force-reinstall '{requirement}'",
            ) from error

    def speak(self, sentence: str, speed: float = 1.0) -> SpokenSentence:
        """Speak one sentence at 0.5 to 2 times the usual pace.

        Text without anything to pronounce gives no samples.
        """
        phonemes = self._model.phonemize(sentence)
        parts = [
            _trimmed(self._model.from_phonemes(each, speed, seed=index))
            for index, each in enumerate(phonemes)
        ]
        samples = np.concatenate(parts) if parts else np.zeros(0, np.float32)
        return SpokenSentence(samples, _word_ends(sentence, " ".join(phonemes), samples))


def _trimmed(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    loud = np.flatnonzero(np.abs(samples) > _SILENT)
    if not len(loud):
        return samples[:0]
    start = max(0, int(loud[0]) - RATE * _LEAD_MS // 1000)
    return samples[start : int(loud[-1]) + RATE * _REST_MS // 1000]


def _word_ends(
    sentence: str, phonemes: str, samples: NDArray[np.float32]
) -> tuple[tuple[int, float], ...]:
    words = list(_WORD.finditer(sentence))
    if not words or not len(samples):
        return ()
    sounds = phonemes.split()
    # A number or a date is one word of text and several of sound; then letters must do.
    lengths = sounds if len(sounds) == len(words) else [word.group() for word in words]
    spoken_ms = max(0.0, len(samples) * 1000 / RATE - _REST_MS)
    shares = np.cumsum([len(each) + 1 for each in lengths])
    return tuple(
        (word.end(), float(spoken_ms * share / shares[-1]))
        for word, share in zip(words, shares, strict=True)
    )
