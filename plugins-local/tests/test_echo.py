"""The echo canceller on a made-up room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from duplex_plugin_local.echo import EchoCancelling
from duplex_sdk.audio import PcmChunk

RATE = 16_000
DELAY = RATE * 60 // 1000


def rms(samples: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))


def echo_of(samples: np.ndarray) -> np.ndarray:
    """A loudspeaker heard 60 ms later, with a short tail of reflections."""
    room = np.zeros(RATE // 10, np.float32)
    room[DELAY] = 0.5
    room[DELAY + 1 :] = 0.04 * np.random.default_rng(1).normal(size=len(room) - DELAY - 1)
    room[DELAY:] *= np.exp(-np.arange(len(room) - DELAY) / 200)
    return np.convolve(samples, room)[: len(samples)].astype(np.float32)


def through(canceller: EchoCancelling, samples: np.ndarray, chunk: int = 1280) -> np.ndarray:
    pieces = [
        canceller.process(PcmChunk.of(samples[start : start + chunk], RATE)).numpy()
        for start in range(0, len(samples), chunk)
    ]
    return np.concatenate(pieces)


@pytest.fixture(scope="module")
def far(spoken: Any) -> np.ndarray:
    text = "The keeper was so surprised that he forgot to look at the clock. " * 3
    samples: np.ndarray = spoken(text)
    return samples


def test_the_echo_goes_down_by_20_db(far: np.ndarray) -> None:
    canceller = EchoCancelling(RATE)
    canceller.played(PcmChunk.of(far, RATE), 0.0)
    heard = echo_of(far)
    cleaned = through(canceller, heard)
    late = slice(3 * RATE, None)
    assert rms(cleaned[late]) < rms(heard[late]) / 10


def test_without_playback_speech_goes_through(far: np.ndarray) -> None:
    cleaned = through(EchoCancelling(RATE), far)
    assert rms(cleaned[RATE:]) > 0.5 * rms(far[RATE:])


@pytest.mark.parametrize("chunk", [100, 1000, 1280, 7777])
def test_each_call_gives_as_much_as_it_takes(far: np.ndarray, chunk: int) -> None:
    canceller = EchoCancelling(RATE)
    for start in range(0, RATE, chunk):
        piece = PcmChunk.of(far[start : start + chunk], RATE)
        assert canceller.process(piece).count == piece.count


def test_cutting_does_not_change_the_result(far: np.ndarray) -> None:
    whole, cut = EchoCancelling(RATE), EchoCancelling(RATE)
    for canceller in (whole, cut):
        canceller.played(PcmChunk.of(far, RATE), 0.0)
    heard = echo_of(far)[: 2 * RATE]
    assert np.array_equal(through(whole, heard, 16_000), through(cut, heard, 333))


def test_an_interruption_replaces_what_was_to_be_played(far: np.ndarray) -> None:
    canceller = EchoCancelling(RATE)
    canceller.played(PcmChunk.of(far, RATE), 0.0)
    through(canceller, np.zeros(RATE, np.float32))
    canceller.played(PcmChunk(b"", RATE), 1000.0)
    assert rms(canceller._reference(RATE)) == 0.0
    canceller.played(PcmChunk.of(far[:RATE], RATE), 2000.0)
    assert np.array_equal(canceller._reference(RATE), far[:RATE])


def test_the_reference_may_have_another_rate(far: np.ndarray) -> None:
    canceller = EchoCancelling(RATE)
    canceller.played(PcmChunk.of(np.repeat(far[:RATE], 3), 48_000), 0.0)
    reference = canceller._reference(RATE // 2)
    assert rms(reference) == pytest.approx(rms(far[: RATE // 2]), rel=0.2)
