"""Between float samples and 16-bit ones. Full scale is 32768, so that int16 goes there and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    from .chunk import PcmChunk

__all__ = ["float_to_pcm16", "nan_count", "pcm16_to_float", "rms", "without_nan"]

FULL_SCALE = 32768.0


def pcm16_to_float(data: bytes) -> NDArray[float32]:
    """Little-endian int16 as float32 in -1..1. ``data`` holds whole samples."""
    samples = numpy.frombuffer(data, dtype="<i2").astype(numpy.float32)
    samples *= numpy.float32(1 / FULL_SCALE)
    return samples


def float_to_pcm16(samples: NDArray[Any]) -> bytes:
    """Float samples as little-endian int16: rounded, saturated, NaN as silence."""
    return to_int16(without_nan(samples)[0]).tobytes()


def to_int16(samples: NDArray[Any]) -> NDArray[numpy.int16]:
    """Float samples, no NaN among them, as int16: rounded and saturated."""
    scaled = samples * FULL_SCALE
    # In place: an array per pass made this half as dear again.
    numpy.rint(scaled, out=scaled)
    scaled.clip(-32768.0, 32767.0, out=scaled)
    return scaled.astype("<i2")


def without_nan(samples: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """The samples with each NaN made silence, and how many there were."""
    # A sum of squares is NaN exactly when a sample is, and takes a third of looking at each.
    if not math.isnan(samples.dot(samples)):
        return samples, 0
    nan = numpy.isnan(samples)
    return numpy.where(nan, 0, samples), int(numpy.count_nonzero(nan))


def nan_count(chunk: PcmChunk) -> int:
    """How many samples of a chunk are NaN."""
    return int(numpy.count_nonzero(numpy.isnan(chunk.numpy())))


def rms(chunk: PcmChunk) -> float:
    """Root mean square of a chunk, full scale 1.0; 0.0 for one without samples."""
    samples = chunk.numpy()
    if not samples.size:
        return 0.0
    return float(numpy.sqrt(numpy.dot(samples, samples) / samples.size))
