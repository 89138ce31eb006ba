"""Text to speech for tools and tests, without a server."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from .voice import Voice

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["say"]

_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def say(text: str) -> tuple[NDArray[np.float32], int]:
    """Speak a text with the plugin's voice.

    Returns:
        Mono float32 samples and their rate, 24000 Hz.

    Raises:
        StageLoadError: the voice cannot be loaded.
    """
    spoken = [_voice().speak(each).samples for each in _SENTENCE.split(text.strip()) if each]
    return (np.concatenate(spoken) if spoken else np.zeros(0, np.float32)), Voice.rate


@cache
def _voice() -> Voice:
    return Voice()
