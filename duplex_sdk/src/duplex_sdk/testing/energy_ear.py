"""An ear without a model: loud frames are speech. Deterministic, for tests of what follows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy

from duplex_sdk.audio import BadAudioError, InputDecoder, PcmChunk, StreamResampler
from duplex_sdk.session.inputs import (
    AudioDecoded,
    Fault,
    InputConfigured,
    SpeechMark,
    SpeechVerdict,
)
from duplex_sdk.session.speech_detector import FRAME_SAMPLES, SAMPLE_RATE, SpeechDetector

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    from duplex_sdk.session.effects import ConfigureInput, DecodeAudio

__all__ = ["EnergyEar"]


LOUD = 0.01
"""Root mean square from which a frame counts as speech, full scale 1.0."""


class EnergyEar:
    """Decodes for one session, and listens with the real detector over loudness."""

    def __init__(self, model_rate: int) -> None:
        self._model_rate = model_rate
        self._decoder = InputDecoder(model_rate)
        self._resampler: StreamResampler | None = None
        self._detector: SpeechDetector | None = None
        self._partial: NDArray[float32] = numpy.zeros(0, numpy.float32)
        self._clock = 0

    def configure(self, effect: ConfigureInput) -> InputConfigured:
        """Exchange the detector."""
        detection = effect.turn_detection
        self._detector = (
            None if detection is None else SpeechDetector(detection, clock_samples=self._clock)
        )
        return InputConfigured(effect.op)

    def decode(self, effect: DecodeAudio) -> AudioDecoded:
        """Decode one append and listen to it."""
        if effect.reset_stream:
            self._decoder.reset()
        if effect.reset_detector and self._detector is not None:
            self._detector.reset()
        try:
            chunk = self._decoder.decode(effect.audio, effect.format, effect.rate)
        except BadAudioError as error:
            return AudioDecoded(effect.op, fault=Fault("bad_audio", str(error)))
        if effect.flush:
            chunk = PcmChunk.join((chunk, self._decoder.flush()))
        if chunk is None or not chunk.data:
            return AudioDecoded(effect.op)
        return AudioDecoded(effect.op, chunk, self._verdict(chunk, effect.listen))

    def _verdict(self, chunk: PcmChunk, listen: bool) -> SpeechVerdict:
        samples = chunk.numpy()
        wide = samples.astype(numpy.float64)
        rms = math.sqrt(float(wide @ wide) / len(wide))
        self._clock += chunk.count * SAMPLE_RATE // chunk.rate
        detector = self._detector
        if detector is None or not listen:
            return SpeechVerdict(rms=rms)
        if self._resampler is None:
            self._resampler = StreamResampler(self._model_rate, SAMPLE_RATE)
        heard = numpy.concatenate((self._partial, self._resampler.process(chunk).numpy()))
        whole = len(heard) - len(heard) % FRAME_SAMPLES
        self._partial = heard[whole:]
        marks: list[SpeechMark] = []
        spoken = detector.active
        voiced = detector.voiced_samples
        frames = heard[:whole].reshape(-1, FRAME_SAMPLES)
        for loud in numpy.sqrt(numpy.square(frames).mean(axis=1)) >= LOUD:
            mark = detector.frame(1.0 if loud else 0.0)
            marks += [] if mark is None else [mark]
            spoken = spoken or detector.active
        voiced_ms = (detector.voiced_samples - voiced) * 1000 / SAMPLE_RATE
        return SpeechVerdict(spoken, detector.active, tuple(marks), rms, voiced_ms)
