from __future__ import annotations

import numpy
import pytest
from duplex_sdk.audio import (
    BadAudioError,
    PcmChunk,
    float_to_pcm16,
    nan_count,
    pcm16_to_float,
    rms,
    without_nan,
)


def int16s(data: bytes) -> list[int]:
    return numpy.frombuffer(data, "<i2").tolist()


def test_every_int16_goes_to_float_and_back() -> None:
    data = numpy.arange(-32768, 32768).astype("<i2").tobytes()
    assert float_to_pcm16(pcm16_to_float(data)) == data


def test_floats_beyond_full_scale_are_saturated() -> None:
    loud = numpy.array([1.0, 1.5, 1e30, numpy.inf, -1.0, -1.5, -numpy.inf])
    assert int16s(float_to_pcm16(loud)) == [32767] * 4 + [-32768] * 3


def test_floats_are_rounded_to_the_nearest() -> None:
    assert int16s(float_to_pcm16(numpy.array([0.6, -0.6, 0.4]) / 32768)) == [1, -1, 0]


def test_nan_becomes_silence_and_is_counted() -> None:
    samples = numpy.array([0.5, numpy.nan, numpy.nan], numpy.float32)
    clean, count = without_nan(samples)
    assert clean.tolist() == [0.5, 0.0, 0.0]
    assert count == nan_count(PcmChunk.of(samples, 16_000)) == 2
    assert int16s(float_to_pcm16(samples)) == [16384, 0, 0]


def test_samples_without_nan_are_not_copied() -> None:
    samples = numpy.zeros(3, numpy.float32)
    assert without_nan(samples)[0] is samples


def test_rms_is_one_for_a_full_scale_square_wave() -> None:
    square = numpy.array([1.0, -1.0] * 50, numpy.float32)
    assert rms(PcmChunk.of(square, 16_000)) == pytest.approx(1.0)


def test_rms_of_nothing_is_zero() -> None:
    assert rms(PcmChunk(b"", 16_000)) == 0.0


def test_a_chunk_knows_its_length() -> None:
    chunk = PcmChunk.silence(441, 44_100)
    assert (chunk.count, chunk.duration_ms) == (441, 10.0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_a_chunk_is_made_of_the_usual_arrays(dtype: str) -> None:
    samples = numpy.array([0, 1], dtype)
    scale = 32768 if dtype == "int16" else 1
    assert PcmChunk.of(samples, 16_000).numpy().tolist() == [0, 1 / scale]


@pytest.mark.parametrize(
    "wrong", [numpy.zeros(2, "int32"), numpy.zeros((2, 2), "float32"), numpy.zeros(2, "complex64")]
)
def test_a_chunk_refuses_other_arrays(wrong: numpy.ndarray) -> None:
    with pytest.raises(BadAudioError):
        PcmChunk.of(wrong, 16_000)


def test_a_chunks_samples_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        PcmChunk.silence(2, 16_000).numpy()[0] = 1
