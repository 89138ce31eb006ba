"""Echo cancelling for clients whose microphone hears their loudspeaker."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from duplex_sdk.audio import PcmChunk, StreamResampler
from duplex_sdk.plugin import InputProcessor
from numpy.typing import NDArray

__all__ = ["EchoCancelling"]

_BLOCK_MS = 10
# The far end of one answer may lie far in the future: speech is made faster than it is heard.
_MAX_REFERENCE_MS = 120_000


class EchoCancelling(InputProcessor):
    """WebRTC's canceller between the client's microphone and the model.

    It works in blocks of 10 ms and gives its output 10 ms later, so that each call gives as much
    as it takes. What the client plays and when is known only roughly; the canceller finds the
    remaining delay by itself.
    """

    def __init__(self, rate: int) -> None:
        """Make a canceller for input at ``rate`` Hz.

        Raises:
            ImportError: ``pywebrtc-audio`` is not installed.
        """
        from pywebrtc_audio import AudioProcessor

        self._rate = rate
        self._block = rate * _BLOCK_MS // 1000
        self._canceller: Any = AudioProcessor(
            sample_rate=rate, echo_cancellation=True, high_pass_filter=True
        )
        self._rest: NDArray[np.float32] = np.zeros(0, np.float32)
        self._ready: NDArray[np.float32] = np.zeros(self._block, np.float32)
        self._clock = 0
        self._far: deque[tuple[int, NDArray[np.float32]]] = deque()
        self._far_end = 0
        self._resampler: StreamResampler | None = None
        self._resampler_rate = 0

    def process(self, audio: PcmChunk) -> PcmChunk:
        """The input without the echo of what was played, as long as ``audio``."""
        near = np.concatenate((self._rest, audio.numpy()))
        whole = len(near) - len(near) % self._block
        self._rest = near[whole:]
        far = self._reference(whole)
        cleaned = [
            self._canceller.process(
                near[start : start + self._block], far[start : start + self._block]
            )
            for start in range(0, whole, self._block)
        ]
        ready = np.concatenate((self._ready, *cleaned))
        self._ready = ready[audio.count :]
        return PcmChunk.of(ready[: audio.count], self._rate)

    def played(self, audio: PcmChunk, start_ms: float) -> None:
        """The client plays this from ``start_ms`` of the input clock on.

        It replaces what was to be played from then on; an empty piece only does that.
        """
        samples = self._at_rate(audio)
        start = round(start_ms * self._rate / 1000)
        while self._far and self._far[-1][0] >= start:
            self._far.pop()
        if self._far:
            began, last = self._far[-1]
            self._far[-1] = (began, last[: start - began])
        limit = self._clock + _MAX_REFERENCE_MS * self._rate // 1000
        if len(samples) and start < limit:
            self._far.append((start, samples))

    def _at_rate(self, audio: PcmChunk) -> NDArray[np.float32]:
        if audio.rate == self._rate:
            return audio.numpy()
        if self._resampler is None or self._resampler_rate != audio.rate:
            self._resampler = StreamResampler(audio.rate, self._rate)
            self._resampler_rate = audio.rate
        return self._resampler.process(audio).numpy()

    def _reference(self, count: int) -> NDArray[np.float32]:
        """What was played during the next ``count`` samples of the input; moves the clock on."""
        end = self._clock + count
        far = np.zeros(count, np.float32)
        for start, samples in self._far:
            first, last = max(start, self._clock), min(start + len(samples), end)
            if first < last:
                far[first - self._clock : last - self._clock] = samples[
                    first - start : last - start
                ]
        self._clock = end
        while self._far and self._far[0][0] + len(self._far[0][1]) <= end:
            self._far.popleft()
        return far
