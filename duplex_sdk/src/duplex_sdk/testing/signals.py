"""Sounds whose samples are known, and a description of sounds that were heard."""

from __future__ import annotations

import zlib

import numpy as np

from duplex_sdk.audio.chunk import PcmChunk

__all__ = ["describe", "noise", "tone"]

_AMPLITUDE = 0.25


def tone(hz: float, start: int, count: int, rate: int) -> PcmChunk:
    """``count`` samples of a sine from sample ``start`` on; pieces join without a click."""
    phase = 2 * np.pi * hz / rate * np.arange(start, start + count)
    return PcmChunk.of(_AMPLITUDE * np.sin(phase), rate)


def noise(seed: tuple[int, ...], count: int, rate: int) -> PcmChunk:
    """``count`` samples of white noise, the same for the same seed (numbers from 0 on)."""
    source = np.random.default_rng(seed)
    return PcmChunk.of(source.uniform(-_AMPLITUDE, _AMPLITUDE, count), rate)


def describe(data: bytes, rate: int) -> str:
    """Length, checksum of the PCM16, and loudest frequency of float32 samples, in words."""
    samples = np.frombuffer(data, dtype="<f4")
    pcm = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2")
    peak = 0
    if samples.any():
        peak = round(int(np.argmax(np.abs(np.fft.rfft(samples)))) * rate / samples.size)
    return (
        f"heard {samples.size * 1000 // rate} ms, {samples.size} samples, "
        f"crc32 {zlib.crc32(pcm.tobytes()):08x}, peak {peak} Hz"
    )
