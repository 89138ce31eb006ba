from __future__ import annotations

import io
import struct
import wave
from pathlib import Path

import numpy
import pytest
from duplex_sdk.audio import BadAudioError, PcmChunk, read_wav, wav_bytes, write_wav

SAMPLES = numpy.array([0, 1, -1, 32767, -32768], "<i2")


def riff(kind: int, channels: int, bits: int, data: bytes, *, rate: int = 8_000) -> bytes:
    frame = channels * bits // 8
    head = struct.pack("<HHIIHH", kind, channels, rate, rate * frame, frame, bits)
    return (
        b"RIFF\0\0\0\0WAVE"
        + struct.pack("<4sI", b"fmt ", len(head))
        + head
        + struct.pack("<4sI", b"data", len(data))
        + data
    )


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    chunk = PcmChunk.of(SAMPLES, 24_000)
    write_wav(tmp_path / "a.wav", chunk)
    assert read_wav(tmp_path / "a.wav") == chunk


def test_the_standard_library_reads_what_is_written() -> None:
    with wave.open(io.BytesIO(wav_bytes(PcmChunk.of(SAMPLES, 24_000)))) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        assert file.readframes(99) == SAMPLES.tobytes()


@pytest.mark.parametrize(
    ("kind", "bits", "data"),
    [
        (1, 8, bytes([0, 128, 192])),
        (1, 16, numpy.array([-32768, 0, 16384], "<i2").tobytes()),
        (1, 24, b"\0\0\x80" + b"\0\0\0" + b"\0\0\x40"),
        (1, 32, numpy.array([-(2**31), 0, 2**30], "<i4").tobytes()),
        (3, 32, numpy.array([-1, 0, 0.5], "<f4").tobytes()),
        (3, 64, numpy.array([-1, 0, 0.5], "<f8").tobytes()),
    ],
)
def test_every_usual_kind_of_sample_is_read(kind: int, bits: int, data: bytes) -> None:
    assert read_wav(riff(kind, 1, bits, data)).numpy().tolist() == [-1, 0, 0.5]


def test_g711_in_a_wav_file_is_read() -> None:
    assert read_wav(riff(7, 1, 8, b"\xff\x80")).numpy().tolist() == [0, 32124 / 32768]


def test_an_extensible_header_names_its_kind_further_on() -> None:
    data = numpy.array([0.25], "<f4").tobytes()
    head = struct.pack("<HHIIHH", 0xFFFE, 1, 8_000, 32_000, 4, 32)
    head += struct.pack("<HHIH", 22, 32, 0, 3) + bytes(14)
    blob = b"RIFF\0\0\0\0WAVE" + struct.pack("<4sI", b"fmt ", len(head)) + head
    blob += struct.pack("<4sI", b"data", len(data)) + data
    assert read_wav(blob).numpy().tolist() == [0.25]


def test_channels_are_averaged() -> None:
    stereo = numpy.array([[16384, 0], [0, -16384]], "<i2").tobytes()
    assert read_wav(riff(1, 2, 16, stereo)).numpy().tolist() == [0.25, -0.25]


def test_a_file_that_ends_early_gives_what_is_there() -> None:
    whole = wav_bytes(PcmChunk.of(SAMPLES, 8_000))
    assert read_wav(whole[:-3]).count == len(SAMPLES) - 2


def test_a_length_left_open_means_to_the_end() -> None:
    blob = bytearray(wav_bytes(PcmChunk.of(SAMPLES, 8_000)))
    blob[40:44] = b"\xff" * 4
    assert read_wav(bytes(blob)).count == len(SAMPLES)


def test_other_chunks_are_passed_over() -> None:
    blob = wav_bytes(PcmChunk.of(SAMPLES, 8_000))
    odd = struct.pack("<4sI", b"LIST", 3) + b"abc\0"
    assert read_wav(blob[:12] + odd + blob[12:]).count == len(SAMPLES)


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"not a wav file at all",
        b"RIFF\0\0\0\0WAVE",
        b"RIFF\0\0\0\0WAVEfmt \x04\0\0\0\x01\0\x01\0data\0\0\0\0",
        b"RIFF\0\0\0\0WAVEdata\0\0\0\0",
        riff(1, 1, 12, b"abc"),
        riff(85, 1, 16, b"ab"),
        riff(1, 0, 16, b"ab"),
        riff(1, 1, 16, b"ab", rate=0),
    ],
)
def test_what_is_no_wav_file_is_refused(blob: bytes) -> None:
    with pytest.raises(BadAudioError):
        read_wav(blob)
