"""ITU-T G.711: 8-bit logarithmic samples, both laws.

Encoding looks each of the 65536 values up in a table. The A-law tables already hold the
alternate bit inversion of the recommendation, the mu-law ones the inversion of all bits.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy

from .pcm import FULL_SCALE, to_int16, without_nan

if TYPE_CHECKING:
    from numpy import float32, int16, uint8
    from numpy.typing import NDArray

__all__ = ["alaw_decode", "alaw_encode", "ulaw_decode", "ulaw_encode"]

# Of 14-bit values, which is what the mu law is defined on; the A law has 13 bits.
_ULAW_BIAS = 33
_ULAW_CLIP = 0x1FFF
_ALAW_INVERSION = 0x55


def ulaw_encode(samples: NDArray[Any]) -> bytes:
    """Float samples in -1..1 as mu-law bytes, one per sample."""
    return _encode(samples, _ulaw_encoding())


def ulaw_decode(data: bytes) -> NDArray[float32]:
    """Mu-law bytes as float32 samples in -1..1."""
    return _decode(data, _ulaw_decoding())


def alaw_encode(samples: NDArray[Any]) -> bytes:
    """Float samples in -1..1 as A-law bytes, one per sample."""
    return _encode(samples, _alaw_encoding())


def alaw_decode(data: bytes) -> NDArray[float32]:
    """A-law bytes as float32 samples in -1..1."""
    return _decode(data, _alaw_decoding())


def _encode(samples: NDArray[Any], table: NDArray[uint8]) -> bytes:
    clean, _ = without_nan(samples)
    return table[to_int16(clean).view(numpy.uint16)].tobytes()


def _decode(data: bytes, table: NDArray[int16]) -> NDArray[float32]:
    codes = numpy.frombuffer(data, dtype=numpy.uint8)
    samples: NDArray[float32] = table[codes].astype(numpy.float32)
    return samples / numpy.float32(FULL_SCALE)


def _all_int16() -> NDArray[Any]:
    """Every int16, in the order of its bits read without sign."""
    return numpy.arange(65536, dtype=numpy.uint16).view(numpy.int16).astype(numpy.int32)


def _magnitude(values: NDArray[Any]) -> NDArray[Any]:
    """Without the sign: the recommendation counts from -1 downwards, hence the complement."""
    return numpy.where(values < 0, ~values, values)


def _segments(magnitude: NDArray[Any], first: int) -> NDArray[Any]:
    """Which of the eight segments each magnitude lies in; the first one ends at ``first``."""
    ends = first << numpy.arange(8)
    return numpy.minimum(numpy.searchsorted(ends, magnitude, side="right"), 7)


@cache
def _ulaw_encoding() -> NDArray[uint8]:
    values = _all_int16()
    magnitude = numpy.minimum((_magnitude(values) >> 2) + _ULAW_BIAS, _ULAW_CLIP)
    segment = _segments(magnitude, 64)
    code = (segment << 4) | ((magnitude >> (segment + 1)) & 0x0F)
    inverted: NDArray[Any] = numpy.where(values < 0, code | 0x80, code) ^ 0xFF
    return inverted.astype(numpy.uint8)


@cache
def _ulaw_decoding() -> NDArray[int16]:
    codes = ~numpy.arange(256, dtype=numpy.int32) & 0xFF
    segment = (codes >> 4) & 7
    magnitude = ((((codes & 0x0F) << 1) + _ULAW_BIAS) << segment) - _ULAW_BIAS
    return numpy.where(codes & 0x80, -magnitude << 2, magnitude << 2).astype(numpy.int16)


@cache
def _alaw_encoding() -> NDArray[uint8]:
    values = _all_int16()
    magnitude = _magnitude(values) >> 3
    segment = _segments(magnitude, 32)
    step = numpy.where(segment < 2, magnitude >> 1, magnitude >> segment) & 0x0F
    sign = numpy.where(values < 0, 0, 0x80)
    return (((segment << 4) | step | sign) ^ _ALAW_INVERSION).astype(numpy.uint8)


@cache
def _alaw_decoding() -> NDArray[int16]:
    codes = numpy.arange(256, dtype=numpy.int32) ^ _ALAW_INVERSION
    segment = (codes >> 4) & 7
    step = (codes & 0x0F) << 4
    first = step + 8
    magnitude = numpy.where(segment == 0, first, (first + 0x100) << numpy.maximum(segment - 1, 0))
    return numpy.where(codes & 0x80, magnitude, -magnitude).astype(numpy.int16)
