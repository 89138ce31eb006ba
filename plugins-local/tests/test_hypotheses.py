"""Partial transcripts only grow."""

from __future__ import annotations

from duplex_plugin_local.hypotheses import GrowingTranscript
from hypothesis import given
from hypothesis import strategies as st

GUESSES = st.lists(
    st.lists(st.sampled_from(["a", "b", "b,", "B", "c."]), max_size=6).map(" ".join), max_size=8
)


def test_a_word_is_shown_once_two_guesses_agree_on_it() -> None:
    transcript = GrowingTranscript()
    assert transcript.grow("It was the bed") == ""
    assert transcript.grow("It was the best of times.") == "It was the"
    assert transcript.grow("It was the best of times, it was") == " best of times"


def test_a_guess_that_changes_its_mind_takes_nothing_back() -> None:
    transcript = GrowingTranscript()
    transcript.grow("four score and")
    assert transcript.grow("four score and seven") == "four score and"
    assert transcript.grow("forty years ago we") == ""
    assert transcript.shown == "four score and"


def test_a_word_heard_differently_later_does_not_stop_the_rest() -> None:
    transcript = GrowingTranscript()
    transcript.grow("for score and seven")
    assert transcript.grow("for score and seven years") == "for score and seven"
    assert transcript.grow("four score and seven years ago") == " years"
    assert transcript.grow("four score and seven years ago our") == " ago"


def test_words_joined_later_do_not_repeat_the_rest() -> None:
    transcript = GrowingTranscript()
    transcript.grow("any one can see it")
    assert transcript.grow("any one can see it all") == "any one can see it"
    assert transcript.grow("anyone can see it all the") == " all"
    assert transcript.grow("anyone can see it all the time") == " the"


@given(GUESSES)
def test_the_pieces_joined_are_what_was_shown(guesses: list[str]) -> None:
    transcript = GrowingTranscript()
    pieces = [transcript.grow(guess) for guess in guesses]
    assert "".join(pieces) == transcript.shown
