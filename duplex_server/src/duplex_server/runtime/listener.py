"""Cuts a stream into the detector's frames; who rates them, and when, is the caller's choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from duplex_sdk.audio import StreamResampler
from duplex_sdk.session.inputs import SpeechMark, SpeechVerdict
from duplex_sdk.session.speech_detector import SpeechDetector

from .vad import FRAME_SAMPLES, VAD_RATE, VadBackend, VadState

if TYPE_CHECKING:
    from duplex_sdk.audio import PcmChunk
    from duplex_sdk.plugin import TurnDetection
    from numpy.typing import NDArray

__all__ = ["Hearing", "Listener"]


class Listener:
    """The detector of one stream: frames of 512 samples at 16 kHz.

    Attributes:
        backend: rates its frames.
        state: what the backend remembers of the stream.
        detector: makes utterances of the ratings.
    """

    def __init__(
        self, backend: VadBackend, settings: TurnDetection, model_rate: int, clock_samples: int
    ) -> None:
        self.backend = backend
        self.detector = SpeechDetector(settings, clock_samples=clock_samples)
        self._rate = model_rate
        self._clear()

    def _clear(self) -> None:
        self.state: VadState = self.backend.fresh()
        self._resampler = StreamResampler(self._rate, VAD_RATE)
        self._partial: NDArray[np.float32] = np.zeros(0, dtype=np.float32)

    def reset(self, clock_samples: int) -> None:
        """Forget the stream; what comes next begins at this sample of the input's 16 kHz clock."""
        self._clear()
        self.detector.skip(clock_samples - self.detector.clock_samples)
        self.detector.reset()

    def hear(self, chunk: PcmChunk) -> Hearing:
        """Take a chunk in; the frames that it completes are to be rated before the next chunk."""
        samples = self._resampler.process(chunk).numpy()
        pending = np.concatenate((self._partial, samples))
        whole = len(pending) - len(pending) % FRAME_SAMPLES
        self._partial = pending[whole:]
        return Hearing(self, pending[:whole].reshape(-1, FRAME_SAMPLES))


class Hearing:
    """The frames of one chunk on their way to a verdict: rated in order, one by one."""

    __slots__ = ("_frames", "_marks", "_next", "_spoken", "_voiced", "listener")

    def __init__(self, listener: Listener, frames: NDArray[np.float32]) -> None:
        self.listener = listener
        self._frames = frames
        self._next = 0
        self._marks: list[SpeechMark] = []
        self._spoken = listener.detector.active
        self._voiced = listener.detector.voiced_samples

    @property
    def frame(self) -> NDArray[np.float32] | None:
        """The frame to be rated next; None: all are."""
        return self._frames[self._next] if self._next < len(self._frames) else None

    def rated(self, probability: float, state: VadState) -> None:
        """The backend's word on ``frame``, and what it remembers now."""
        self._next += 1
        self.listener.state = state
        mark = self.listener.detector.frame(probability)
        if mark is not None:
            self._marks.append(mark)
        self._spoken = self._spoken or self.listener.detector.active

    def verdict(self, rms: float) -> SpeechVerdict:
        """What is known now that every frame is rated; ``rms``: of the chunk."""
        detector = self.listener.detector
        return SpeechVerdict(
            is_speech=self._spoken,
            active=detector.active,
            marks=tuple(self._marks),
            rms=rms,
            voiced_ms=(detector.voiced_samples - self._voiced) * 1000 / VAD_RATE,
        )
