"""The recogniser on speech: our voice's, and a person's."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from duplex_plugin_local import recordings
from duplex_plugin_local.moonshine import Moonshine
from duplex_plugin_local.numerals import comparable
from duplex_sdk.audio import read_wav, resample

RATE = 16_000
HUMAN = Path("/usr/share/pocketsphinx/test/data")


def agreement(left: list[str], right: list[str]) -> float:
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()


@pytest.mark.parametrize(
    "sentence",
    [
        "What time does the library close on Saturday?",
        "Please set a timer for ten seconds.",
        "Seventeen plus twenty five is forty two.",
        "The weather was so nice that we walked along the river.",
    ],
)
def test_reads_back_what_the_voice_says(moonshine: Moonshine, spoken: Any, sentence: str) -> None:
    assert comparable(moonshine.transcribe(spoken(sentence))) == comparable(sentence)


@pytest.mark.parametrize(
    "answer",
    [
        "It is 3:05 PM.",
        "Today is Monday, November 30, 2026.",
        "17 plus 25 is 42.",
        "12 divided by 5 is 2.4.",
        "Timer set for 1 minute and 30 seconds.",
    ],
)
def test_numbers_and_times_are_spoken_so_that_they_can_be_understood(
    moonshine: Moonshine, spoken: Any, answer: str
) -> None:
    heard = comparable(moonshine.transcribe(spoken(answer)))
    assert agreement(heard, comparable(answer)) > 0.7, heard


def test_reads_a_person(moonshine: Moonshine) -> None:
    samples = resample(read_wav(recordings.two_cities()), RATE).numpy()[: RATE * 25]
    heard = comparable(moonshine.transcribe(samples))
    assert agreement(heard, comparable(recordings.TWO_CITIES_TEXT)) > 0.95


def test_a_long_reading_goes_through_the_stage_in_pieces(
    make_bench: Any, moonshine: Moonshine
) -> None:
    bench = make_bench(moonshine)
    bench.hear(resample(read_wav(recordings.two_cities()), RATE).numpy()[: RATE * 25])
    bench.commit(respond=False)
    (heard,) = bench.finals
    assert agreement(comparable(heard), comparable(recordings.TWO_CITIES_TEXT)) > 0.93
    shown = "".join(bench.partials)
    assert len(shown) > 200
    assert agreement(comparable(shown), comparable(heard)) > 0.85


def test_half_a_word_is_nothing(moonshine: Moonshine) -> None:
    assert moonshine.transcribe(np.zeros(100, np.float32)) == ""


SENTENCE = "What time does the library close on Saturday?"


@pytest.mark.parametrize("cut", [0, 1, 3, None])
def test_a_draft_does_not_decide_the_result(moonshine: Moonshine, spoken: Any, cut: Any) -> None:
    samples = spoken(SENTENCE)
    alone = moonshine.recognise(samples)
    assert moonshine.recognise(samples, alone.tokens[:cut]).text == alone.text
    assert moonshine.recognise(samples, (*alone.tokens[:3], 5, 6, 7)).text == alone.text


def test_a_draft_saves_decoding(moonshine: Moonshine, spoken: Any) -> None:
    samples = spoken(SENTENCE)
    steps: list[int] = []

    class Counting(Moonshine):
        def _step(self, fixed: Any, past: Any, tokens: Any, *, first: bool) -> list[Any]:
            steps.append(len(tokens))
            return super()._step(fixed, past, tokens, first=first)

    counting = Counting()
    tokens = counting.recognise(samples).tokens
    assert len(steps) == len(tokens) + 1
    steps.clear()
    counting.recognise(samples, tokens)
    assert steps == [len(tokens) + 1]


@pytest.mark.human_speech
@pytest.mark.skipif(not HUMAN.is_dir(), reason="pocketsphinx-testdata is not installed")
def test_reads_a_spoken_command(moonshine: Moonshine) -> None:
    samples = np.frombuffer((HUMAN / "goforward.raw").read_bytes(), "<i2")
    heard = comparable(moonshine.transcribe(samples.astype(np.float32) / 32768))
    assert heard == ["go", "forward", "10", "meters"]
