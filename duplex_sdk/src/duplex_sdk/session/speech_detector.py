"""When an utterance begins and ends, from the speech probability of one frame after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .inputs import SpeechMark

if TYPE_CHECKING:
    from duplex_sdk.plugin import TurnDetection

__all__ = ["FRAME_SAMPLES", "SAMPLE_RATE", "SpeechDetector"]

SAMPLE_RATE = 16_000
FRAME_SAMPLES = 512
"""Samples of one frame: 32 ms."""

_SAMPLES_PER_MS = SAMPLE_RATE // 1000
_HYSTERESIS = 0.15
_LOWEST_EXIT = 0.01


class SpeechDetector:
    """A state machine over probabilities; where they come from is not its business.

    Its clock counts the samples of all frames, also of those it was told to skip, and is never
    reset: positions are ms of the session's input.

    Args:
        detection: the figures.
        clock_samples: where the clock stands, for one that takes over from another.
    """

    def __init__(self, detection: TurnDetection, *, clock_samples: int = 0) -> None:
        self._enter = detection.threshold
        # A little below the entry, so that a voice that sinks for a moment does not end its turn.
        self._leave = max(detection.threshold - _HYSTERESIS, _LOWEST_EXIT)
        self._padding = int(detection.prefix_padding_ms * _SAMPLES_PER_MS)
        minimum = int(detection.min_speech_duration_ms * _SAMPLES_PER_MS)
        self._min_speech = max(FRAME_SAMPLES, minimum)
        self._min_silence = int(detection.silence_duration_ms * _SAMPLES_PER_MS)
        self._clock = clock_samples
        self._stream_start = clock_samples
        self._active = False
        self._candidate = 0
        self._candidate_start = clock_samples
        self._silence = 0
        self._voiced = 0

    @property
    def voiced_samples(self) -> int:
        """Samples of utterances so far without the silences in and after them; never reset."""
        return self._voiced

    @property
    def active(self) -> bool:
        """Whether an utterance is under way."""
        return self._active

    @property
    def clock_samples(self) -> int:
        """Samples at 16 kHz since the session began."""
        return self._clock

    @property
    def clock_ms(self) -> int:
        """The same in ms."""
        return self._clock // _SAMPLES_PER_MS

    @property
    def silence_ms(self) -> int:
        """How long the utterance under way has been silent; 0 outside one."""
        return self._silence // _SAMPLES_PER_MS

    def frame(self, probability: float) -> SpeechMark | None:
        """Take in the next frame.

        Args:
            probability: of speech in it; clamped to 0..1, not a number counts as 0.

        Returns:
            A mark when an utterance began or ended with this frame.
        """
        started_at = self._clock
        self._clock += FRAME_SAMPLES
        p = min(max(0.0, probability), 1.0) if probability == probability else 0.0
        return self._in_utterance(p) if self._active else self._outside(p, started_at)

    def skip(self, samples: int) -> None:
        """Let the clock run over samples that nobody listens to."""
        self._clock += max(0, samples)

    def reset(self) -> None:
        """Forget the stream, keep the clock: padding will not reach back beyond this point."""
        self._active = False
        self._candidate = 0
        self._silence = 0
        self._stream_start = self._clock

    def _outside(self, probability: float, started_at: int) -> SpeechMark | None:
        if probability < self._enter:
            self._candidate = 0
            return None
        if self._candidate == 0:
            self._candidate_start = started_at
        self._candidate += FRAME_SAMPLES
        if self._candidate < self._min_speech:
            return None
        self._active = True
        self._voiced += self._candidate
        self._candidate = 0
        self._silence = 0
        start = max(self._stream_start, self._candidate_start - self._padding, 0)
        return SpeechMark("started", start // _SAMPLES_PER_MS)

    def _in_utterance(self, probability: float) -> SpeechMark | None:
        if probability >= self._enter:
            self._silence = 0
            self._voiced += FRAME_SAMPLES
            return None
        if probability >= self._leave and self._silence == 0:
            return None
        self._silence += FRAME_SAMPLES
        if probability >= self._leave or self._silence < self._min_silence:
            return None
        self._active = False
        self._silence = 0
        return SpeechMark("stopped", self.clock_ms)
