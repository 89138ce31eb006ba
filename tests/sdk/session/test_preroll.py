from __future__ import annotations

import numpy as np
import pytest
from duplex_sdk.audio import PcmChunk
from duplex_sdk.session.preroll import PreRoll
from hypothesis import given
from hypothesis import strategies as st

RATE = 1000
"""One sample is one ms."""


def ramp(start: int, count: int, rate: int = RATE) -> PcmChunk:
    return PcmChunk.of(np.arange(start, start + count, dtype=np.float32), rate)


def test_the_last_samples_are_kept() -> None:
    preroll = PreRoll(5)
    preroll.push(ramp(0, 4))
    preroll.push(ramp(4, 4))
    assert preroll.byte_count == 20
    assert preroll.take() == ramp(3, 5)
    assert preroll.take() is None
    assert preroll.byte_count == 0


def test_a_chunk_longer_than_the_preroll_is_cut() -> None:
    preroll = PreRoll(3)
    preroll.push(ramp(0, 100))
    assert preroll.take() == ramp(97, 3)


@pytest.mark.parametrize("length_ms", [0, -1])
def test_a_preroll_of_no_length_keeps_nothing(length_ms: int) -> None:
    preroll = PreRoll(length_ms)
    preroll.push(ramp(0, 10))
    assert preroll.take() is None


def test_another_rate_begins_anew() -> None:
    preroll = PreRoll(5)
    preroll.push(ramp(0, 5))
    preroll.push(ramp(0, 2, rate=2000))
    assert preroll.take() == ramp(0, 2, rate=2000)


def test_clearing_tells_how_much_it_freed() -> None:
    preroll = PreRoll(5)
    preroll.push(ramp(0, 3))
    assert preroll.clear() == 12
    assert preroll.clear() == 0


def test_a_shorter_length_takes_effect_at_once() -> None:
    preroll = PreRoll(5)
    preroll.push(ramp(0, 5))
    preroll.resize(2)
    assert preroll.take() == ramp(3, 2)


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(0, 60))
def test_it_holds_exactly_the_tail_of_what_was_pushed(sizes: list[int], length: int) -> None:
    preroll = PreRoll(length)
    total = 0
    for size in sizes:
        preroll.push(ramp(total, size))
        total += size
        assert preroll.byte_count == 4 * min(length, total)
    kept = min(length, total)
    assert preroll.take() == (ramp(total - kept, kept) if kept else None)
