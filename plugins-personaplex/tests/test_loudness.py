"""Loudness against figures that follow from the standard."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from duplex_plugin_personaplex.loudness import loudness_lufs, to_loudness


def sine(hertz: float, level_dbfs: float, seconds: float, rate: int) -> NDArray[np.float32]:
    time = np.arange(round(seconds * rate)) / rate
    return (10 ** (level_dbfs / 20) * np.sin(2 * np.pi * hertz * time)).astype(np.float32)


@pytest.mark.parametrize("rate", [24_000, 48_000])
@pytest.mark.parametrize("level", [0.0, -20.0])
def test_a_kilohertz_tone_reads_three_below_its_peak(rate: int, level: float) -> None:
    assert loudness_lufs(sine(997, level, 5, rate), rate) == pytest.approx(level - 3.01, abs=0.05)


def test_what_is_hard_to_hear_counts_less() -> None:
    rumble, voice = sine(30, -20, 5, 24_000), sine(1000, -20, 5, 24_000)
    assert loudness_lufs(rumble, 24_000) < loudness_lufs(voice, 24_000) - 5


def test_pauses_do_not_make_speech_quieter() -> None:
    tone = sine(997, -20, 4, 24_000)
    with_pause = np.concatenate([tone, np.zeros(24_000 * 8, np.float32)])
    whole = loudness_lufs(tone, 24_000)
    assert loudness_lufs(with_pause, 24_000) == pytest.approx(whole, abs=0.4)


def test_silence_has_no_loudness_and_stays_silent() -> None:
    silence = np.zeros(24_000, np.float32)
    assert loudness_lufs(silence, 24_000) == -math.inf
    assert not to_loudness(silence, 24_000, -24.0).any()


@pytest.mark.parametrize("level", [-50.0, -6.0])
def test_a_signal_is_brought_to_the_loudness_asked_for(level: float) -> None:
    brought = to_loudness(sine(997, level, 3, 24_000), 24_000, -24.0)
    assert loudness_lufs(brought, 24_000) == pytest.approx(-24.0, abs=0.05)


def test_no_sample_is_turned_up_over_full_scale() -> None:
    clicks = np.zeros(24_000, np.float32)
    clicks[::6000] = 0.5
    assert np.abs(to_loudness(clicks, 24_000, -10.0)).max() <= 1.0
