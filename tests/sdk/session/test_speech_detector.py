from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duplex_sdk.plugin import TurnDetection
from duplex_sdk.session.inputs import SpeechMark
from duplex_sdk.session.speech_detector import FRAME_SAMPLES, SpeechDetector
from hypothesis import given
from hypothesis import strategies as st

FRAME_MS = 32


def detector(**figures: Any) -> SpeechDetector:
    defaults = {"prefix_padding_ms": 0, "silence_duration_ms": 64, "min_speech_duration_ms": 96}
    return SpeechDetector(TurnDetection(**(defaults | figures)))


def run(listener: SpeechDetector, script: Iterable[float]) -> list[tuple[int, SpeechMark]]:
    marks = ((n, listener.frame(p)) for n, p in enumerate(script))
    return [(n, mark) for n, mark in marks if mark is not None]


def test_speech_starts_once_it_has_lasted_long_enough_and_counts_from_its_beginning() -> None:
    marks = run(detector(), [0.1, 0.1, 0.9, 0.9, 0.9, 0.9])
    assert marks == [(4, SpeechMark("started", 2 * FRAME_MS))]


def test_a_gap_before_the_start_begins_the_count_anew() -> None:
    marks = run(detector(), [0.9, 0.9, 0.49, 0.9, 0.9, 0.9])
    assert marks == [(5, SpeechMark("started", 3 * FRAME_MS))]


def test_the_shortest_speech_is_one_frame() -> None:
    assert run(detector(min_speech_duration_ms=0), [0.5]) == [(0, SpeechMark("started", 0))]


def test_padding_reaches_back_but_not_before_the_stream() -> None:
    quiet = [0.0] * 10
    assert run(detector(prefix_padding_ms=100), [*quiet, 0.9, 0.9, 0.9]) == [
        (12, SpeechMark("started", 10 * FRAME_MS - 100))
    ]
    assert run(detector(prefix_padding_ms=100), [0.9, 0.9, 0.9]) == [(2, SpeechMark("started", 0))]


def test_speech_stops_after_enough_silence_at_the_end_of_that_silence() -> None:
    marks = run(detector(), [0.9, 0.9, 0.9, 0.1, 0.1, 0.1])
    assert marks[1:] == [(4, SpeechMark("stopped", 5 * FRAME_MS))]


def test_a_sinking_voice_is_no_silence() -> None:
    # 0.35 is the exit threshold: at or above it nothing is counted before a silence began.
    marks = run(detector(), [0.9, 0.9, 0.9, *[0.35] * 20])
    assert [mark.kind for _, mark in marks] == ["started"]


def test_a_turn_ends_only_on_a_frame_below_the_exit_threshold() -> None:
    marks = run(detector(), [0.9, 0.9, 0.9, 0.3, 0.4, 0.4, 0.4, 0.3])
    assert marks[1:] == [(7, SpeechMark("stopped", 8 * FRAME_MS))]


def test_speech_that_returns_ends_the_silence() -> None:
    marks = run(detector(), [0.9, 0.9, 0.9, 0.1, 0.6, 0.1, 0.6, 0.1, 0.1])
    assert marks[1:] == [(8, SpeechMark("stopped", 9 * FRAME_MS))]


def test_no_silence_at_all_is_needed_where_none_is_asked_for() -> None:
    marks = run(detector(silence_duration_ms=0), [0.9, 0.9, 0.9, 0.1])
    assert marks[1:] == [(3, SpeechMark("stopped", 4 * FRAME_MS))]


def test_silence_is_told_while_it_lasts() -> None:
    listener = detector(silence_duration_ms=500)
    run(listener, [0.9, 0.9, 0.9, 0.1, 0.1])
    assert listener.active
    assert listener.silence_ms == 64


def test_a_reset_keeps_the_clock_and_padding_stays_behind_it() -> None:
    listener = detector(prefix_padding_ms=1000)
    run(listener, [0.9] * 5)
    listener.reset()
    assert not listener.active
    assert listener.clock_samples == 5 * FRAME_SAMPLES
    assert run(listener, [0.9] * 3) == [(2, SpeechMark("started", 5 * FRAME_MS))]


def test_the_clock_runs_over_audio_that_nobody_listens_to() -> None:
    listener = detector()
    listener.skip(16_000)
    assert listener.clock_ms == 1000
    assert run(listener, [0.9] * 3) == [(2, SpeechMark("started", 1000))]


def test_a_successor_goes_on_with_the_clock() -> None:
    figures = TurnDetection(prefix_padding_ms=300, min_speech_duration_ms=32)
    successor = SpeechDetector(figures, clock_samples=32_000)
    assert successor.frame(1.0) == SpeechMark("started", 2000)


def test_what_is_not_a_number_is_not_speech() -> None:
    assert run(detector(min_speech_duration_ms=0), [float("nan"), -3.0]) == []
    assert run(detector(min_speech_duration_ms=0), [7.0]) == [(0, SpeechMark("started", 0))]


@given(st.lists(st.floats(min_value=0, max_value=1), max_size=200))
def test_starts_and_stops_alternate_on_a_clock_that_only_grows(script: list[float]) -> None:
    listener = detector(prefix_padding_ms=300)
    marks = [mark for _, mark in run(listener, script)]
    kinds = [mark.kind for mark in marks]
    assert kinds == ["started", "stopped"] * (len(kinds) // 2) + ["started"] * (len(kinds) % 2)
    assert listener.active is (len(kinds) % 2 == 1)
    assert listener.clock_samples == len(script) * FRAME_SAMPLES
    for started, stopped in zip(marks[::2], marks[1::2], strict=False):
        assert started.at_ms < stopped.at_ms
