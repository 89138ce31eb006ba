from __future__ import annotations

import numpy
import pytest
from duplex_sdk.audio import BadAudioError, InputDecoder, PcmChunk, resample, ulaw_encode

RATE = 16_000


def tone16(count: int, rate: int = RATE) -> bytes:
    samples = 8_000 * numpy.sin(2 * numpy.pi * 1_000 * numpy.arange(count) / rate)
    return samples.astype("<i2").tobytes()


def decoded(decoder: InputDecoder, pieces: list[bytes], format: str, rate: int) -> bytes:
    chunks = [decoder.decode(piece, format, rate) for piece in pieces]
    chunks.append(decoder.flush())
    return b"".join(chunk.data for chunk in chunks if chunk is not None)


@pytest.mark.parametrize("rate", [RATE, 24_000], ids=["same rate", "resampled"])
@pytest.mark.parametrize("first", [0, 1, 3, 4801])
def test_a_sample_split_over_two_appends_is_joined(first: int, rate: int) -> None:
    data = tone16(4_800, rate)
    whole = decoded(InputDecoder(RATE), [data], "pcm16", rate)
    split = decoded(InputDecoder(RATE), [data[:first], data[first:]], "pcm16", rate)
    assert split == whole


def test_float_samples_are_joined_byte_by_byte() -> None:
    data = numpy.array([0.25, -0.5], "<f4").tobytes()
    pieces = [data[i : i + 1] for i in range(len(data))]
    assert decoded(InputDecoder(RATE), pieces, "pcm_f32le", RATE) == data


def test_nothing_ready_is_none() -> None:
    decoder = InputDecoder(RATE)
    assert decoder.decode(b"", "pcm16", RATE) is None
    assert decoder.decode(b"\x01", "pcm16", RATE) is None


def test_a_reset_drops_the_odd_byte() -> None:
    decoder = InputDecoder(RATE)
    decoder.decode(b"\x01", "pcm16", RATE)
    decoder.reset()
    chunk = decoder.decode(tone16(8), "pcm16", RATE)
    assert chunk is not None
    assert (chunk.numpy() * 32768).astype("<i2").tobytes() == tone16(8)


def test_a_change_of_format_drops_the_odd_byte() -> None:
    decoder = InputDecoder(RATE)
    decoder.decode(b"\x01", "pcm16", RATE)
    decoder.decode(b"\xff", "g711_ulaw", RATE)
    chunk = decoder.decode(tone16(8), "pcm16", RATE)
    assert chunk is not None
    assert (chunk.numpy() * 32768).astype("<i2").tobytes() == tone16(8)


def test_a_change_of_rate_loses_no_audio() -> None:
    decoder = InputDecoder(RATE)
    chunks = [decoder.decode(tone16(2_400, 24_000), "pcm16", 24_000)]
    chunks.append(decoder.decode(tone16(1_600), "pcm16", RATE))
    heard = b"".join(chunk.data for chunk in chunks if chunk is not None)
    assert PcmChunk(heard, RATE).count == 3_200


def test_input_is_resampled_as_one_stream() -> None:
    data = tone16(24_000, 24_000)
    samples = PcmChunk((numpy.frombuffer(data, "<i2") / numpy.float32(32768)).tobytes(), 24_000)
    pieces = [data[i : i + 960] for i in range(0, len(data), 960)]
    assert decoded(InputDecoder(RATE), pieces, "pcm16", 24_000) == resample(samples, RATE).data


def test_g711_is_decoded() -> None:
    chunk = InputDecoder(8_000).decode(ulaw_encode(numpy.array([0.0])), "g711_ulaw", 8_000)
    assert chunk == PcmChunk(bytes(4), 8_000)


def test_nan_is_silence_and_counted_and_the_rest_is_clipped() -> None:
    decoder = InputDecoder(RATE)
    data = numpy.array([numpy.nan, numpy.inf, -9.0, 0.5], "<f4").tobytes()
    chunk = decoder.decode(data, "pcm_f32le", RATE)
    assert chunk is not None
    assert chunk.numpy().tolist() == [0.0, 1.0, -1.0, 0.5]
    assert decoder.nan_samples == 1


@pytest.mark.parametrize(("format", "rate"), [("mp3", RATE), ("wav", RATE), ("pcm16", 0)])
def test_what_cannot_be_decoded_is_refused(format: str, rate: int) -> None:
    with pytest.raises(BadAudioError):
        InputDecoder(RATE).decode(b"\0\0", format, rate)


def test_a_refused_append_leaves_the_stream_as_it_was() -> None:
    decoder = InputDecoder(RATE)
    decoder.decode(tone16(8)[:1], "pcm16", RATE)
    with pytest.raises(BadAudioError):
        decoder.decode(b"\0\0", "mp3", RATE)
    chunk = decoder.decode(tone16(8)[1:], "pcm16", RATE)
    assert chunk is not None
    assert chunk.count == 8
