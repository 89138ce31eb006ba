"""The audio of the turn under way, and how loud it is."""

from __future__ import annotations

import numpy as np
from duplex_sdk.audio import PcmChunk
from numpy.typing import NDArray

__all__ = ["Utterance"]

_FRAME_MS = 10
# Below this nobody speaks, whatever the noise; about -50 dB.
_FLOOR = 0.003
# A pause is this much quieter than the loudest speech (26 dB) yet not much above the noise.
_BELOW_PEAK = 0.05
_ABOVE_NOISE = 2.5


class Utterance:
    """Collects samples and measures them in frames of 10 ms.

    The server's detector says whether a unit is speech only until its own silence rule ends; when
    the speaker paused is seen here, from the level.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._frame = rate * _FRAME_MS // 1000
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._pieces: list[NDArray[np.float32]] = []
        self._levels: list[float] = []
        self._unmeasured: NDArray[np.float32] = np.zeros(0, np.float32)
        self._last_loud = -1
        self._detected: bool | None = None

    def add(self, audio: PcmChunk, *, padding: int = 0, is_speech: bool | None) -> None:
        """Append a unit; ``padding`` samples at its end are no input."""
        samples = audio.numpy()[: audio.count - padding]
        self._pieces.append(samples)
        if is_speech is not None:
            self._detected = bool(self._detected) or is_speech
        pending = np.concatenate((self._unmeasured, samples))
        whole = len(pending) - len(pending) % self._frame
        self._unmeasured = pending[whole:]
        frames = pending[:whole].reshape(-1, self._frame)
        self._levels.extend(np.sqrt(np.mean(np.square(frames), axis=1)).tolist())
        self._find_last_loud(len(frames))

    @property
    def duration_ms(self) -> float:
        """Length of what was collected."""
        return sum(len(piece) for piece in self._pieces) * 1000 / self._rate

    @property
    def silence_ms(self) -> float:
        """How long it has been quiet at the end; 0 before anything was loud."""
        if self._last_loud < 0:
            return 0.0
        return float((len(self._levels) - 1 - self._last_loud) * _FRAME_MS)

    @property
    def loud_until_ms(self) -> float:
        """Where the last loud frame ends. It moves on exactly when speech goes on."""
        return float((self._last_loud + 1) * _FRAME_MS)

    @property
    def has_speech(self) -> bool:
        """The detector's word; without one whether anything was loud."""
        return self._last_loud >= 0 if self._detected is None else self._detected

    def samples(self) -> NDArray[np.float32]:
        """All of it, joined."""
        if len(self._pieces) != 1:
            self._pieces = [np.concatenate(self._pieces) if self._pieces else self._unmeasured[:0]]
        return self._pieces[0]

    def split(self, earliest_ms: float, latest_ms: float) -> NDArray[np.float32]:
        """Cut off the front at the quietest 100 ms between the two and return it."""
        window = 100 // _FRAME_MS
        first, last = int(earliest_ms / _FRAME_MS), int(latest_ms / _FRAME_MS)
        sums = np.convolve(self._levels[first:last], np.ones(window), mode="valid")
        cut = first + int(np.argmin(sums)) + window // 2
        samples = self.samples()
        self._pieces = [samples[cut * self._frame :]]
        del self._levels[:cut]
        self._last_loud = max(-1, self._last_loud - cut)
        return samples[: cut * self._frame]

    def _find_last_loud(self, added: int) -> None:
        if not self._levels:
            return
        peak = max(self._levels)
        # A turn begins with the pre-roll, so its quietest part is the room.
        noise = float(np.percentile(self._levels, 10))
        level = max(_FLOOR, peak * _BELOW_PEAK, min(noise * _ABOVE_NOISE, peak * 0.5))
        for index in range(len(self._levels) - added, len(self._levels)):
            if self._levels[index] > level:
                self._last_loud = index
