"""From a model's samples to the bytes of one response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .chunk import BadAudioError, PcmChunk
from .g711 import alaw_encode, ulaw_encode
from .pcm import to_int16, without_nan
from .resampling import StreamResampler
from .wav import wav_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["OutputEncoder"]


def _pcm16(samples: NDArray[Any]) -> bytes:
    # ``encode`` has made every NaN silence already.
    return to_int16(samples).tobytes()


_FORMATS: dict[str, Callable[[NDArray[Any]], bytes]] = {
    "pcm16": _pcm16,
    "g711_ulaw": ulaw_encode,
    "g711_alaw": alaw_encode,
}


class OutputEncoder:
    """Encodes one response: one stream with its resampler's state. One call at a time.

    Each piece of a ``wav`` stream is a whole WAV file.

    Attributes:
        nan_samples: how many NaN samples were made silence so far.

    Raises:
        BadAudioError: no such output format.
    """

    def __init__(self, format: str, model_rate: int, wire_rate: int) -> None:
        if format != "wav" and format not in _FORMATS:
            raise BadAudioError(f"no output format is called {format!r}")
        self.nan_samples = 0
        self._format = format
        self._wire_rate = wire_rate
        self._resampler = StreamResampler(model_rate, wire_rate)

    def encode(self, audio: PcmChunk) -> bytes:
        """What is ready once these samples have been added; may be empty.

        Raises:
            ValueError: the samples are not at the model's rate.
        """
        samples, nan = without_nan(audio.numpy())
        if nan:
            # Inside the resampler one NaN would silence the whole rest of the stream.
            self.nan_samples += nan
            audio = PcmChunk.of(samples, audio.rate)
        return self._bytes(self._resampler.process(audio))

    def flush(self) -> bytes:
        """The end of the response; may be empty."""
        return self._bytes(self._resampler.flush())

    def _bytes(self, audio: PcmChunk) -> bytes:
        if not audio.data:
            return b""
        if self._format == "wav":
            return wav_bytes(audio)
        return _FORMATS[self._format](audio.numpy())
