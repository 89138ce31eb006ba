"""Audio inside the system: samples and their rate. Base64 exists only at the edge."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from duplex_sdk.errors import DuplexError

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

__all__ = ["BadAudioError", "PcmChunk"]

SAMPLE_BYTES = 4


class BadAudioError(DuplexError, ValueError):
    """Samples that are not mono float32, float64 or int16, or bytes that are not whole samples."""


class PcmChunk(msgspec.Struct, frozen=True, gc=False):
    """A stretch of mono audio: float32 little endian samples in -1..1 at ``rate`` Hz.

    Immutable. ``data`` is plain ``bytes``: slicing a unit out of it costs less than a
    memoryview and keeps no larger parent alive.
    """

    data: bytes
    rate: int

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self.data) // SAMPLE_BYTES

    @property
    def duration_ms(self) -> float:
        """Length in milliseconds, exact."""
        return len(self.data) // SAMPLE_BYTES * 1000 / self.rate

    def numpy(self) -> NDArray[float32]:
        """The samples as a read-only view. The methods here load numpy, the module does not."""
        import numpy

        return numpy.frombuffer(self.data, dtype="<f4")

    @classmethod
    def of(cls, array: Any, rate: int) -> PcmChunk:
        """Make a chunk of an array of samples.

        Args:
            array: mono float32 or float64 in -1..1, or int16.
            rate: Hz.

        Raises:
            BadAudioError: another dtype or more than one dimension.
        """
        import numpy

        samples = numpy.asarray(array)
        if samples.ndim != 1:
            raise BadAudioError(
                f"audio must be mono, one dimension; got shape {samples.shape}",
                hint="mix the channels down or take one of them before you hand it over",
            )
        if samples.dtype == numpy.int16:
            samples = samples.astype(numpy.float32) / 32768.0
        elif samples.dtype not in (numpy.dtype("float32"), numpy.dtype("float64")):
            raise BadAudioError(
                f"audio must be float32, float64 or int16; got {samples.dtype}",
                hint="convert it with .astype(numpy.float32), scaled to -1..1",
            )
        return cls(numpy.ascontiguousarray(samples, dtype="<f4").tobytes(), rate)

    @staticmethod
    def join(chunks: Iterable[PcmChunk | None]) -> PcmChunk | None:
        """Stretches of one rate as one, in order; None when there is none at all.

        Raises:
            BadAudioError: they have different rates.
        """
        known = [chunk for chunk in chunks if chunk is not None]
        if len(known) < 2:
            return known[0] if known else None
        rates = {chunk.rate for chunk in known}
        if len(rates) > 1:
            raise BadAudioError(f"audio of {sorted(rates)} Hz cannot be joined")
        return PcmChunk(b"".join(chunk.data for chunk in known), known[0].rate)

    @classmethod
    def silence(cls, count: int, rate: int) -> PcmChunk:
        """``count`` samples of silence."""
        return cls(bytes(count * SAMPLE_BYTES), rate)
