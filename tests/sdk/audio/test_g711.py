from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
from duplex_sdk.audio import alaw_decode, alaw_encode, ulaw_decode, ulaw_encode

EVERY_INT16 = range(-32768, 32768)
EVERY_CODE = bytes(range(256))


# Written from the recommendation, one sample at a time: what the tables are held against.
def reference_ulaw_encode(sample: int) -> int:
    magnitude = min(((~sample if sample < 0 else sample) >> 2) + 33, 0x1FFF)
    segment = 1
    while magnitude >> (segment + 5):
        segment += 1
    code = (8 - segment) << 4 | 0x0F - (magnitude >> segment & 0x0F)
    return code if sample < 0 else code | 0x80


def reference_ulaw_decode(code: int) -> int:
    inverted = ~code & 0xFF
    step = 4 << (inverted >> 4 & 7) + 1
    magnitude = (0x80 << (inverted >> 4 & 7)) + step * (inverted & 0x0F) + step // 2 - 4 * 33
    return -magnitude if inverted & 0x80 else magnitude


def reference_alaw_encode(sample: int) -> int:
    magnitude = (~sample if sample < 0 else sample) >> 4
    if magnitude > 15:
        segment = 1
        while magnitude > 16 + 15:
            magnitude >>= 1
            segment += 1
        magnitude = magnitude - 16 + (segment << 4)
    return (magnitude if sample < 0 else magnitude | 0x80) ^ 0x55


def reference_alaw_decode(code: int) -> int:
    plain = code ^ 0x55
    segment, step = plain >> 4 & 7, plain & 0x0F
    magnitude = (step << 4) + 8
    if segment:
        magnitude = (magnitude + 0x100) << (segment - 1)
    return magnitude if plain & 0x80 else -magnitude


LAWS = pytest.mark.parametrize(
    ("encode", "decode", "reference_encode", "reference_decode"),
    [
        (ulaw_encode, ulaw_decode, reference_ulaw_encode, reference_ulaw_decode),
        (alaw_encode, alaw_decode, reference_alaw_encode, reference_alaw_decode),
    ],
    ids=["ulaw", "alaw"],
)
Encode = Callable[[Any], bytes]
Decode = Callable[[bytes], Any]
Scalar = Callable[[int], int]


@LAWS
def test_every_sample_is_encoded_as_the_recommendation_says(
    encode: Encode, decode: Decode, reference_encode: Scalar, reference_decode: Scalar
) -> None:
    samples = numpy.array(EVERY_INT16) / 32768
    assert encode(samples) == bytes(reference_encode(sample) for sample in EVERY_INT16)


@LAWS
def test_every_code_is_decoded_as_the_recommendation_says(
    encode: Encode, decode: Decode, reference_encode: Scalar, reference_decode: Scalar
) -> None:
    decoded = numpy.rint(decode(EVERY_CODE) * 32768).astype(int)
    assert decoded.tolist() == [reference_decode(code) for code in EVERY_CODE]


@pytest.mark.parametrize(
    ("decode", "known"),
    [
        (ulaw_decode, {0x00: -32124, 0x80: 32124, 0xFF: 0, 0x8F: 16764, 0xEF: 132}),
        (alaw_decode, {0xD5: 8, 0x55: -8, 0xAA: 32256, 0x2A: -32256}),
    ],
    ids=["ulaw", "alaw"],
)
def test_well_known_codes(decode: Decode, known: dict[int, int]) -> None:
    for code, value in known.items():
        assert round(float(decode(bytes([code]))[0]) * 32768) == value


def test_decoding_then_encoding_gives_the_code_back() -> None:
    assert alaw_encode(alaw_decode(EVERY_CODE)) == EVERY_CODE
    # The law has two zeros; the negative one comes back as the positive one.
    assert ulaw_encode(ulaw_decode(EVERY_CODE)) == EVERY_CODE.replace(b"\x7f", b"\xff")


def test_samples_beyond_full_scale_are_the_loudest_codes() -> None:
    assert ulaw_encode(numpy.array([2.0, -2.0])) == b"\x80\x00"
    assert alaw_encode(numpy.array([2.0, -2.0])) == b"\xaa\x2a"
