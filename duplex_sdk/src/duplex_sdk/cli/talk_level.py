"""How loud a stream of PCM16 is, and whether somebody is speaking."""

from __future__ import annotations

from array import array
from math import log10, sqrt

__all__ = ["LevelMeter"]

_LOUD_RMS = 0.01
_FLOOR_DB = -60.0
_FALL_PER_CHUNK = 0.85


class LevelMeter:
    """A meter that rises at once and falls slowly.

    Attributes:
        level: 0 (-60 dB or less) to 1 (full scale).
    """

    def __init__(self) -> None:
        self.level = 0.0

    def feed(self, pcm: bytes) -> bool:
        """Note a piece of mono PCM16; True when it is loud enough to be speech."""
        rms = _rms(pcm)
        loudness = 20 * log10(rms) if rms > 0 else _FLOOR_DB
        self.level = max(1 - loudness / _FLOOR_DB, self.level * _FALL_PER_CHUNK, 0.0)
        return rms >= _LOUD_RMS


def _rms(pcm: bytes) -> float:
    samples = array("h", pcm[: len(pcm) // 2 * 2])
    if not samples:
        return 0.0
    # Every fourth sample is enough for a meter, and keeps it cheap without numpy.
    picked = samples[::4]
    return sqrt(sum(s * s for s in picked) / len(picked)) / 32768
