"""WAV files: written as mono 16-bit PCM, read in the kinds that recordings come in."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from .chunk import BadAudioError, PcmChunk
from .g711 import alaw_decode, ulaw_decode
from .pcm import float_to_pcm16, pcm16_to_float

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["read_wav", "wav_bytes", "write_wav"]

_PCM, _FLOAT, _ALAW, _ULAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
# What a writer leaves in a length it could not know yet.
_OPEN_ENDED = 0xFFFFFFFF


class _Layout(NamedTuple):
    kind: int
    channels: int
    rate: int
    bits: int


def wav_bytes(audio: PcmChunk) -> bytes:
    """A whole WAV file: mono, 16 bits, at the chunk's rate."""
    data = float_to_pcm16(audio.numpy())
    return b"".join(
        (
            struct.pack("<4sI4s", b"RIFF", 36 + len(data), b"WAVE"),
            struct.pack("<4sIHHIIHH", b"fmt ", 16, _PCM, 1, audio.rate, audio.rate * 2, 2, 16),
            struct.pack("<4sI", b"data", len(data)),
            data,
        )
    )


def write_wav(path: str | Path, audio: PcmChunk) -> None:
    """Write a WAV file: mono, 16 bits, at the chunk's rate."""
    Path(path).write_bytes(wav_bytes(audio))


def read_wav(source: str | Path | bytes) -> PcmChunk:
    """Read a WAV file, from a path or its bytes; channels are averaged.

    Takes PCM of 8, 16, 24 and 32 bits, floats of 32 and 64, and both G.711 laws. A file that ends
    early gives what is there.

    Raises:
        BadAudioError: no WAV file, or of a kind that is not taken.
        OSError: the path cannot be read.
    """
    blob = source if isinstance(source, bytes) else Path(source).read_bytes()
    layout, data = _chunks(blob)
    read = _READERS.get((layout.kind, layout.bits))
    if read is None or not layout.channels or not layout.rate:
        raise BadAudioError(
            f"a WAV file of format {layout.kind} with {layout.bits} bits,"
            f" {layout.channels} channels and {layout.rate} Hz cannot be read",
            hint="convert it to 16-bit PCM",
        )
    frame = layout.channels * layout.bits // 8
    samples = read(data[: len(data) - len(data) % frame])
    if layout.channels > 1:
        samples = samples.reshape(-1, layout.channels).mean(axis=1)
    return PcmChunk.of(samples.astype(numpy.float32), layout.rate)


def _chunks(blob: bytes) -> tuple[_Layout, bytes]:
    if len(blob) < 12 or blob[:4] != b"RIFF" or blob[8:12] != b"WAVE":
        raise BadAudioError("this is no WAV file", hint="it should begin with RIFF....WAVE")
    layout: _Layout | None = None
    at = 12
    while at + 8 <= len(blob):
        name, size = struct.unpack_from("<4sI", blob, at)
        at += 8
        if name == b"fmt ":
            layout = _layout(blob[at : at + size])
        elif name == b"data":
            if layout is None:
                raise BadAudioError("a WAV file must say its format before its data")
            return layout, blob[at:] if size == _OPEN_ENDED else blob[at : at + size]
        at += size + size % 2
    raise BadAudioError("this WAV file holds no data")


def _layout(body: bytes) -> _Layout:
    if len(body) < 16:
        raise BadAudioError("the format of this WAV file is cut off")
    kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", body)
    if kind == _EXTENSIBLE and len(body) >= 26:
        (kind,) = struct.unpack_from("<H", body, 24)
    return _Layout(kind, channels, rate, bits)


def _pcm8(data: bytes) -> NDArray[Any]:
    return (numpy.frombuffer(data, numpy.uint8).astype(numpy.float32) - 128) / 128


def _pcm24(data: bytes) -> NDArray[Any]:
    triples = numpy.frombuffer(data, numpy.uint8).reshape(-1, 3)
    words = numpy.zeros((len(triples), 4), numpy.uint8)
    words[:, 1:] = triples
    return words.view("<i4").reshape(-1) / 2.0**31


def _pcm32(data: bytes) -> NDArray[Any]:
    return numpy.frombuffer(data, "<i4") / 2.0**31


def _float32(data: bytes) -> NDArray[Any]:
    return numpy.frombuffer(data, "<f4")


def _float64(data: bytes) -> NDArray[Any]:
    return numpy.frombuffer(data, "<f8")


_READERS: dict[tuple[int, int], Callable[[bytes], NDArray[Any]]] = {
    (_PCM, 8): _pcm8,
    (_PCM, 16): pcm16_to_float,
    (_PCM, 24): _pcm24,
    (_PCM, 32): _pcm32,
    (_FLOAT, 32): _float32,
    (_FLOAT, 64): _float64,
    (_ALAW, 8): alaw_decode,
    (_ULAW, 8): ulaw_decode,
}
