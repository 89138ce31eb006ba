from __future__ import annotations

import numpy
import pytest
from duplex_sdk.audio import BadAudioError, OutputEncoder, PcmChunk, alaw_encode, read_wav

RATE = 24_000


def ramp(count: int, rate: int = RATE) -> PcmChunk:
    return PcmChunk.of((numpy.arange(count) % 100 - 50).astype("<i2"), rate)


def encoded(encoder: OutputEncoder, chunk: PcmChunk, cut: int) -> bytes:
    step = 4 * cut
    pieces = [chunk.data[i : i + step] for i in range(0, len(chunk.data), step)]
    out = [encoder.encode(PcmChunk(piece, chunk.rate)) for piece in pieces]
    return b"".join([*out, encoder.flush()])


def test_pcm16_at_the_models_rate_is_sample_exact() -> None:
    chunk = ramp(1_000)
    data = encoded(OutputEncoder("pcm16", RATE, RATE), chunk, 37)
    assert data == (chunk.numpy() * 32768).astype("<i2").tobytes()


def test_a_response_is_resampled_as_one_stream() -> None:
    chunk = ramp(24_000)
    pieces = encoded(OutputEncoder("pcm16", RATE, 16_000), chunk, 480)
    assert pieces == encoded(OutputEncoder("pcm16", RATE, 16_000), chunk, 24_000)
    assert abs(len(pieces) // 2 - 16_000) <= 1


def test_g711_comes_at_its_own_rate() -> None:
    data = encoded(OutputEncoder("g711_alaw", RATE, 8_000), PcmChunk.silence(2_400, RATE), 480)
    assert data == alaw_encode(numpy.zeros(800))


def test_each_piece_of_wav_is_a_file() -> None:
    encoder = OutputEncoder("wav", RATE, RATE)
    for _ in range(2):
        assert read_wav(encoder.encode(ramp(480))) == ramp(480)


def test_nothing_to_say_is_no_bytes_in_every_format() -> None:
    for format in ("pcm16", "g711_ulaw", "g711_alaw", "wav"):
        encoder = OutputEncoder(format, RATE, RATE)
        assert encoder.encode(PcmChunk(b"", RATE)) == b""
        assert encoder.flush() == b""


def test_one_nan_does_not_silence_the_rest_of_the_stream() -> None:
    samples = numpy.full(2_400, 0.5, numpy.float32)
    samples[100] = numpy.nan
    encoder = OutputEncoder("pcm16", RATE, 16_000)
    data = numpy.frombuffer(encoded(encoder, PcmChunk.of(samples, RATE), 480), "<i2")
    assert encoder.nan_samples == 1
    assert abs(int(data[1_000]) - 16_384) < 50


def test_loud_output_is_saturated() -> None:
    encoder = OutputEncoder("pcm16", RATE, RATE)
    data = encoder.encode(PcmChunk.of(numpy.array([3.0, -3.0]), RATE))
    assert numpy.frombuffer(data, "<i2").tolist() == [32767, -32768]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(BadAudioError):
        OutputEncoder("pcm_f32le", RATE, RATE)


def test_audio_of_another_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="24000 Hz, the chunk 16000 Hz"):
        OutputEncoder("pcm16", RATE, RATE).encode(ramp(1, 16_000))
