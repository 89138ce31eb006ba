"""The ear of one session: wire bytes in, samples at the model's rate and a speech verdict out.

The session core asks for this work by the effects ``DecodeAudio`` and ``ConfigureInput``; the ear
carries them out. It keeps what must live as long as the stream: the odd byte, resampler states, the
frame that is not full yet, the detector.

Calls come one at a time, from the engine loop or from a worker thread of its pool. ``play`` and
``stop_playing`` alone may come from the loop while such a call runs.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
from duplex_sdk.audio import BadAudioError, InputDecoder, PcmChunk, rms
from duplex_sdk.session.inputs import (
    AudioDecoded,
    Fault,
    InputConfigured,
    SpeechVerdict,
)

from .listener import Hearing, Listener
from .vad import FRAME_SAMPLES, VAD_RATE, VadProvider, VadState, VadUnavailableError

if TYPE_CHECKING:
    from duplex_sdk.plugin import InputProcessor
    from duplex_sdk.session.effects import ConfigureInput, DecodeAudio
    from numpy.typing import NDArray

__all__ = ["HeardAudio", "SessionEar"]

_logger = logging.getLogger(__name__)

# What one append may cost on the engine loop. Handing work to a thread costs about 55 us, and
# nothing on the loop may take much over a millisecond. Frames are rated one per turn of the loop,
# together with those of other sessions.
_CHEAP_US = 400.0
_US_PER_FRAME = 40.0
_US_PER_AUDIO_MS = 0.3
_LOWEST_RATE, _HIGHEST_RATE = 8_000, 192_000
_SAMPLE_BYTES = {"pcm16": 2, "pcm_f32le": 4, "g711_ulaw": 1, "g711_alaw": 1}


class SessionEar:
    """Hears for one session."""

    __slots__ = (
        "_clock_samples",
        "_decoder",
        "_listener",
        "_model_rate",
        "_play_cursor_ms",
        "_processor",
        "_reference",
        "_reference_decoder",
        "_vad",
    )

    def __init__(
        self,
        model_rate: int,
        *,
        vad: VadProvider,
        input_processor: InputProcessor | None = None,
    ) -> None:
        """Make an ear that has no detector until ``configure`` gives it one.

        Args:
            model_rate: Hz of the samples that ``decode`` gives.
            vad: where the shared voice activity backend comes from.
            input_processor: the plugin's, applied to every append before the detector hears it.
        """
        self._model_rate = model_rate
        self._vad = vad
        self._processor = input_processor
        self._decoder = InputDecoder(model_rate)
        self._listener: Listener | None = None
        self._clock_samples = 0
        self._reference: list[tuple[bytes, str, int] | None] = []
        self._reference_decoder: tuple[tuple[str, int], InputDecoder] | None = None
        self._play_cursor_ms = 0.0

    @property
    def clock_ms(self) -> float:
        """Length of all input decoded so far, before processing: the session's input clock."""
        return self._clock_samples * 1000 / self._model_rate

    def is_cheap(self, effect: DecodeAudio) -> bool:
        """Whether ``decode`` may run on the engine loop: it takes well under a millisecond."""
        if self._processor is not None:
            return False
        width = _SAMPLE_BYTES.get(effect.format, 1)
        audio_ms = len(effect.audio) * 1000 / (width * max(effect.rate, 1))
        cost = audio_ms * _US_PER_AUDIO_MS
        if self._listener is not None and effect.listen:
            cost += audio_ms * VAD_RATE / (1000 * FRAME_SAMPLES) * _US_PER_FRAME
        return cost <= _CHEAP_US

    def is_cheap_to_configure(self, effect: ConfigureInput) -> bool:
        """Whether ``configure`` may run on the engine loop: no model has to be loaded for it."""
        return effect.turn_detection is None or self._vad.settled

    def configure(self, effect: ConfigureInput) -> InputConfigured:
        """Exchange the detector; the first use of a backend loads its model (about 50 ms).

        A backend that cannot be had is the fault ``server_vad_unavailable``, and there is then no
        detector. Never raises.
        """
        self._listener = None
        if effect.turn_detection is None:
            return InputConfigured(effect.op)
        try:
            backend = self._vad.backend()
        except VadUnavailableError as error:
            return InputConfigured(effect.op, fault=_unavailable(error))
        self._listener = Listener(
            backend, effect.turn_detection, self._model_rate, self._vad_clock()
        )
        return InputConfigured(effect.op)

    def decode(self, effect: DecodeAudio) -> AudioDecoded:
        """Decode one append and listen to it: ``hear``, and the rating as well. Never raises."""
        heard = self.hear(effect)
        return heard.rate_alone() if isinstance(heard, HeardAudio) else heard

    def hear(self, effect: DecodeAudio) -> AudioDecoded | HeardAudio:
        """Decode one append; what completes frames of the detector is still to be rated.

        Never raises. Until the rating is done no other call may come but those of playing.

        Bytes that are no audio are the fault ``bad_audio``; a rate out of range is ``bad_event``.
        When the detector fails, the samples come back without a verdict and with the fault
        ``server_vad_unavailable``: the audio is sound, and detection is off from then on.
        """
        if effect.reset_stream:
            self._decoder.reset()
        if effect.reset_detector and self._listener is not None:
            self._listener.reset(self._vad_clock())
        if not _LOWEST_RATE <= effect.rate <= _HIGHEST_RATE:
            return AudioDecoded(effect.op, fault=_bad_rate(effect.rate))
        try:
            chunk = self._decoder.decode(effect.audio, effect.format, effect.rate)
        except BadAudioError as error:
            return AudioDecoded(effect.op, fault=Fault("bad_audio", str(error), param="audio"))
        if effect.flush:
            chunk = PcmChunk.join((chunk, self._decoder.flush()))
        if chunk is None or not chunk.data:
            return AudioDecoded(effect.op)
        length = chunk.count
        chunk = self._processed(chunk)
        self._clock_samples += length
        if not chunk.data:
            return AudioDecoded(effect.op)
        return self._listen(effect, chunk)

    def play(self, audio: bytes, audio_format: str, rate: int) -> None:
        """Note what the client is about to play, for the input processor's echo reference.

        A client plays in real time and starts when the audio arrives, so a piece begins where the
        one before it ends, or now. Cheap, and nothing at all without an input processor.
        """
        if self._processor is not None:
            self._reference.append((audio, audio_format, rate))

    def stop_playing(self) -> None:
        """The client drops what it had not played yet: a barge-in or a cancel."""
        if self._processor is not None:
            self._reference.append(None)

    def _vad_clock(self) -> int:
        return self._clock_samples * VAD_RATE // self._model_rate

    def lose_detector(self) -> None:
        """The detector failed: from now on audio comes without a verdict."""
        self._listener = None

    def _listen(self, effect: DecodeAudio, chunk: PcmChunk) -> AudioDecoded | HeardAudio:
        loudness = rms(chunk)
        listener = self._listener
        if listener is not None and effect.listen:
            heard = HeardAudio(self, effect.op, chunk, loudness, listener.hear(chunk))
            return heard.outcome() or heard
        if listener is not None:
            # Audio goes by unheard: what comes next is not its continuation.
            listener.reset(self._vad_clock())
        return AudioDecoded(effect.op, chunk, SpeechVerdict(rms=loudness))

    def _processed(self, chunk: PcmChunk) -> PcmChunk:
        if self._processor is None:
            return chunk
        try:
            self._feed_reference(self._processor)
            processed = self._processor.process(chunk)
            if (processed.rate, processed.count) != (chunk.rate, chunk.count):
                raise ValueError(f"it must keep rate and length: {chunk.count} at {chunk.rate} Hz")
        except Exception:
            # A plugin's code: whatever it raises ends its use, never the session.
            _logger.exception("the input processor failed; it is off for this session")
            self._processor = None
            self._reference.clear()
            return chunk
        return processed

    def _feed_reference(self, processor: InputProcessor) -> None:
        while self._reference:
            entry = self._reference.pop(0)
            if entry is None:
                self._play_cursor_ms = self.clock_ms
                processor.played(PcmChunk(b"", self._model_rate), self.clock_ms)
                continue
            piece = self._reference_piece(*entry)
            if piece is not None:
                start = max(self._play_cursor_ms, self.clock_ms)
                self._play_cursor_ms = start + piece.duration_ms
                processor.played(piece, start)

    def _reference_piece(self, audio: bytes, audio_format: str, rate: int) -> PcmChunk | None:
        key = (audio_format, rate)
        if self._reference_decoder is None or self._reference_decoder[0] != key:
            self._reference_decoder = (key, InputDecoder(self._model_rate))
        try:
            return self._reference_decoder[1].decode(audio, audio_format, rate)
        except BadAudioError:
            # Output may have a format that input cannot have, such as WAV files: no reference then.
            return None


class HeardAudio:
    """Decoded audio whose frames are still to be rated.

    Attributes:
        backend: rates them.
    """

    __slots__ = ("_audio", "_ear", "_hearing", "_op", "_rms", "backend")

    def __init__(
        self, ear: SessionEar, op: int, audio: PcmChunk, loudness: float, hearing: Hearing
    ) -> None:
        self.backend = hearing.listener.backend
        self._ear = ear
        self._op = op
        self._audio = audio
        self._rms = loudness
        self._hearing = hearing

    def next_frame(self) -> tuple[NDArray[np.float32], VadState]:
        """What ``VadBackend.infer`` takes. Only before the outcome is there."""
        frame = self._hearing.frame
        assert frame is not None
        return frame, self._hearing.listener.state

    def rated(self, probability: float, state: VadState) -> None:
        """What ``VadBackend.infer`` gave for ``next_frame``."""
        self._hearing.rated(probability, state)

    def outcome(self) -> AudioDecoded | None:
        """The audio with its verdict; None while frames are left."""
        if self._hearing.frame is not None:
            return None
        return AudioDecoded(self._op, self._audio, self._hearing.verdict(self._rms))

    def rate_alone(self) -> AudioDecoded:
        """Rate all frames that are left, here and now. Never raises."""
        try:
            while (outcome := self.outcome()) is None:
                self.rated(*self.backend.infer(*self.next_frame()))
        except Exception as error:
            # Whatever a runtime raises, the session goes on without a detector.
            _logger.exception("voice activity detection failed; it is off for this session")
            self._ear.lose_detector()
            verdict = SpeechVerdict(rms=self._rms)
            return AudioDecoded(self._op, self._audio, verdict, _unavailable(error))
        return outcome


def _bad_rate(rate: int) -> Fault:
    return Fault(
        "bad_event",
        f"input must have {_LOWEST_RATE} to {_HIGHEST_RATE} Hz; got {rate}",
        param="sample_rate_hz",
    )


def _unavailable(error: Exception) -> Fault:
    return Fault("server_vad_unavailable", f"server VAD is off: {error}", param="turn_detection")
