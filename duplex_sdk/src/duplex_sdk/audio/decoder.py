"""From the bytes a client sends to samples at the model's rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from .chunk import BadAudioError, PcmChunk
from .g711 import alaw_decode, ulaw_decode
from .pcm import pcm16_to_float, without_nan
from .resampling import StreamResampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy import float32
    from numpy.typing import NDArray

__all__ = ["InputDecoder"]

_FLOAT_BYTES = 4


def _floats(data: bytes) -> NDArray[float32]:
    samples: NDArray[float32] = numpy.frombuffer(data, dtype="<f4")
    return samples.clip(-1.0, 1.0)


# Bytes of a sample, and what makes floats of them.
_FORMATS: dict[str, tuple[int, Callable[[bytes], NDArray[float32]]]] = {
    "pcm16": (2, pcm16_to_float),
    "pcm_f32le": (_FLOAT_BYTES, _floats),
    "g711_ulaw": (1, ulaw_decode),
    "g711_alaw": (1, alaw_decode),
}


class InputDecoder:
    """Decodes the input of one session. One call at a time.

    A sample may be split over two pieces of one format and rate: its bytes wait for the rest. When
    the rate changes, what the resampler still held comes out first.

    Attributes:
        nan_samples: how many NaN samples were made silence so far.
    """

    def __init__(self, model_rate: int) -> None:
        self.nan_samples = 0
        self._model_rate = model_rate
        self._format = ""
        self._odd = b""
        self._resampler: StreamResampler | None = None

    def decode(self, data: bytes, format: str, rate: int) -> PcmChunk | None:
        """Samples at the model's rate; None when none are ready yet.

        Args:
            data: bytes as they came off the wire.
            format: ``pcm16``, ``pcm_f32le``, ``g711_ulaw`` or ``g711_alaw``.
            rate: Hz of ``data``.

        Raises:
            BadAudioError: another format, or a rate that cannot be.
        """
        if format not in _FORMATS:
            raise BadAudioError(f"no input format is called {format!r}")
        if rate <= 0:
            raise BadAudioError(f"{rate} is no sample rate")
        rest = self._change(format, rate)
        samples = self._samples(data)
        assert self._resampler is not None
        fresh = self._resampler.process(PcmChunk(samples.astype("<f4", copy=False).tobytes(), rate))
        joined = rest + fresh.data
        return PcmChunk(joined, self._model_rate) if joined else None

    def flush(self) -> PcmChunk | None:
        """What the resampler still holds, as at the end of a turn; then as after :meth:`reset`."""
        rest = b"" if self._resampler is None else self._resampler.flush().data
        self.reset()
        return PcmChunk(rest, self._model_rate) if rest else None

    def reset(self) -> None:
        """Forget the bytes of a split sample and what the resampler holds."""
        self._odd = b""
        if self._resampler is not None:
            self._resampler.reset()

    def _change(self, format: str, rate: int) -> bytes:
        """Switch to a format and rate; what the old resampler still held."""
        resampler = self._resampler
        same_rate = resampler is not None and resampler.rate_in == rate
        if format != self._format or not same_rate:
            self._odd = b""
        self._format = format
        if same_rate:
            return b""
        self._resampler = StreamResampler(rate, self._model_rate)
        return b"" if resampler is None else resampler.flush().data

    def _samples(self, data: bytes) -> NDArray[float32]:
        width, read = _FORMATS[self._format]
        joined = self._odd + data if self._odd else data
        whole = len(joined) - len(joined) % width
        self._odd = joined[whole:]
        samples = read(joined[:whole])
        if width == _FLOAT_BYTES:
            # In the integer formats there is no NaN.
            samples, nan = without_nan(samples)
            self.nan_samples += nan
        return samples
