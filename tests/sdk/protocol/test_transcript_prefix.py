"""How much of an answer was heard by a position in its audio."""

from __future__ import annotations

from duplex_sdk.protocol.duplex import AudioTextMark, RisingMarks, transcript_prefix
from hypothesis import given
from hypothesis import strategies as st

TEN = "abcdefghij"
MARKS = [AudioTextMark(4, 1000), AudioTextMark(8, 3000)]


def test_without_marks_text_is_proportional_to_time() -> None:
    heard = [transcript_prefix(TEN, (), 10_000, at) for at in (0, 999, 1000, 4000, 9999, 10_000)]
    assert heard == ["", "", "a", "abcd", "abcdefghi", TEN]


def test_ten_characters_over_ten_seconds_cut_at_four_give_four() -> None:
    assert transcript_prefix(TEN, (), 10_000.0, 4000.0) == "abcd"


def test_marks_are_met_exactly_and_interpolated_between() -> None:
    lengths = {
        at: len(transcript_prefix(TEN, MARKS, 4000, at))
        for at in (0, 250, 500, 1000, 2000, 3000, 3500, 4000, 9000)
    }
    assert lengths == {
        0: 0,
        250: 1,
        500: 2,
        1000: 4,
        2000: 6,
        3000: 8,
        3500: 9,
        4000: 10,
        9000: 10,
    }


def test_marks_may_come_in_any_order() -> None:
    assert transcript_prefix(TEN, MARKS[::-1], 4000, 2000) == "abcdef"


def test_mark_beyond_the_text_is_held_to_it() -> None:
    assert transcript_prefix(TEN, [AudioTextMark(99, 1000)], 2000, 1000) == TEN


def test_mark_that_falls_back_takes_nothing_back() -> None:
    marks = [AudioTextMark(6, 1000), AudioTextMark(2, 2000)]
    assert transcript_prefix(TEN, marks, 4000, 2000) == "abcdef"


def test_trailing_white_space_is_removed() -> None:
    assert transcript_prefix("one two", (), 7000, 4000) == "one"
    assert transcript_prefix("one \n", (), 5000, 5000) == "one"


def test_no_position_and_nonsense_give_no_text() -> None:
    for position in (0, -5, float("nan"), float("-inf")):
        assert transcript_prefix(TEN, MARKS, 4000, position) == ""


def test_text_without_audio_counts_as_heard() -> None:
    assert transcript_prefix(TEN, (), 0, 1) == TEN


MARK_LISTS = st.lists(
    st.builds(AudioTextMark, st.integers(-5, 40), st.integers(-100, 6000)), max_size=6
)


@given(
    text=st.text(max_size=30),
    marks=MARK_LISTS,
    audio_ms=st.floats(0, 5000),
    positions=st.tuples(st.floats(-10, 6000), st.floats(-10, 6000)),
)
def test_more_audio_never_gives_less_text(
    text: str, marks: list[AudioTextMark], audio_ms: float, positions: tuple[float, float]
) -> None:
    earlier, later = (transcript_prefix(text, marks, audio_ms, at) for at in sorted(positions))
    assert text.startswith(later)
    assert later.startswith(earlier)
    assert transcript_prefix(text, marks, audio_ms, audio_ms + 1) == text.rstrip()


PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(-5, 5000)), max_size=12)


@given(PAIRS, st.integers(0, 5000))
def test_marks_taken_in_one_by_one_say_what_sorted_ones_say(
    pairs: list[tuple[int, int]], position_ms: int
) -> None:
    marks = [AudioTextMark(chars, end_ms) for chars, end_ms in pairs]
    growing = RisingMarks()
    for mark in marks:
        growing.add(mark)
    ordered = RisingMarks(sorted(marks, key=lambda mark: mark.audio_end_ms))
    assert len(growing) == len(marks)
    for each in (growing, marks):
        cut = transcript_prefix(TEN, each, 4000, position_ms)
        assert cut == transcript_prefix(TEN, ordered, 4000, position_ms)
    start, start_chars = 0, 0
    for mark in sorted(marks, key=lambda mark: mark.audio_end_ms):
        end, chars = max(0, mark.audio_end_ms), min(10, max(start_chars, mark.text_chars))
        if 0 < position_ms < min(end, 4000):
            gained = (chars - start_chars) * (position_ms - start) // (end - start)
            assert cut == TEN[: start_chars + gained]
            break
        start, start_chars = end, chars
