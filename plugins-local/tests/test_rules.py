"""The built-in replies."""

from __future__ import annotations

from datetime import datetime

import pytest
from duplex_plugin_local.durations import find_duration_s, spoken_duration
from duplex_plugin_local.numerals import comparable, take_number, words_of
from duplex_plugin_local.rules import Question, answer
from duplex_plugin_local.sums import answer_sum

NOW = datetime(2026, 11, 30, 0, 5)


def ask(text: str | None, *earlier: dict[str, str]) -> str:
    return answer(Question(text, earlier, NOW)).text


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("What time is it?", "It is 12:05 AM."),
        ("Can you tell me the time, please?", "It is 12:05 AM."),
        ("What's the date today?", "Today is Monday, November 30, 2026."),
        ("What day is it?", "Today is Monday, November 30, 2026."),
        ("What is seventeen plus twenty-five?", "17 plus 25 is 42."),
        ("Stop.", "Okay."),
        ("Never mind", "Okay."),
        ("Hello there!", "Hello! What can I do for you?"),
        ("Thank you.", "You are welcome."),
        ("Goodbye", "Goodbye!"),
        ("How are you?", "I am fine, thank you. And you?"),
        ("Set a timer", "For how long should the timer run?"),
        ("Set a timer for 30 hours", "I can set timers from one second to one day."),
        ("", "Sorry, I did not catch that."),
        ("Please repeat that", "I have not said anything yet."),
    ],
)
def test_replies(text: str, reply: str) -> None:
    assert ask(text) == reply


def test_repeat_says_what_the_conversation_says_was_heard() -> None:
    said = {"role": "assistant", "content": "Seven."}
    assert ask("Say that again", said, {"role": "user", "content": "Say that again"}) == "Seven."


def test_repeat_reads_content_in_parts() -> None:
    said = {"role": "assistant", "content": [{"type": "output_audio", "transcript": "Eight."}]}
    assert answer(Question("Repeat", (said,), NOW)).text == "Eight."


def test_what_it_cannot_do_it_says_and_shows_that_it_heard() -> None:
    reply = ask("Who won the game last night?")
    assert reply.startswith("I heard: Who won the game last night. I am a small demo")


def test_an_answer_without_a_question_is_a_greeting() -> None:
    assert ask(None).startswith("Hello!")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("What is 17 + 25?", "17 plus 25 is 42."),
        ("two plus three times four", "2 plus 3 times 4 is 14."),
        ("a hundred and five minus six", "105 minus 6 is 99."),
        ("five minus eight", "5 minus 8 is minus 3."),
        ("12 divided by 5", "12 divided by 5 is 2.4."),
        ("ten percent of two hundred and fifty", "10 percent of 250 is 25."),
        ("1,250 times three", "1,250 times 3 is 3,750."),
        ("three point five times two", "3.5 times 2 is 7."),
        ("one over zero", "Nothing can be divided by zero."),
        ("nine hundred million times nine hundred million", "That number is too long to say."),
        ("I have two dogs and five cats", None),
        ("tell me three things", None),
        ("", None),
    ],
)
def test_sums(text: str, result: str | None) -> None:
    assert answer_sum(text) == result


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("zero", 0),
        ("twenty five", 25),
        ("twenty-five", 25),
        ("nineteen", 19),
        ("a hundred", 100),
        ("three hundred and seven", 307),
        ("two thousand and six", 2006),
        ("one million two hundred thousand", 1_200_000),
        ("5 hundred", 500),
        ("3.25", 3.25),
        ("six point oh", 6),
    ],
)
def test_numbers(text: str, value: float) -> None:
    found = take_number(words_of(text), 0)
    assert found is not None
    assert found[0] == value


@pytest.mark.parametrize("text", ["a dog", "and five", "hello", ""])
def test_no_number(text: str) -> None:
    assert take_number(words_of(text), 0) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It is 3:05 PM.", ["it", "is", "3", "5", "pm"]),
        ("It is three oh five p.m.", ["it", "is", "3", "5", "pm"]),
        ("Seventeen plus 25 is forty-two!", ["17", "plus", "25", "is", "42"]),
        ("Oh, two point four.", ["oh", "2.4"]),
    ],
)
def test_texts_compare_by_what_was_said(text: str, words: list[str]) -> None:
    assert comparable(text) == words


def test_numbers_said_in_a_row_are_several() -> None:
    assert take_number(words_of("five six"), 0) == (5, 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("for ten seconds", 10),
        ("a minute and a half", 90),
        ("1 minute and 30 seconds", 90),
        ("half an hour", 1800),
        ("two hours", 7200),
        ("soon", None),
    ],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert find_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1, "1 second"),
        (90, "1 minute and 30 seconds"),
        (3600, "1 hour"),
        (3725, "1 hour, 2 minutes and 5 seconds"),
    ],
)
def test_spoken_durations(seconds: float, text: str) -> None:
    assert spoken_duration(seconds) == text
    assert find_duration_s(text) == seconds
