"""The built-in replies: a few things done right, and honesty about the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from duplex_sdk.stage import Json

from .conversation import last_said
from .durations import find_duration_s, spoken_duration
from .sums import answer_sum

__all__ = ["Question", "Reply", "answer"]


@dataclass(frozen=True, slots=True)
class Question:
    """A turn of the user.

    Attributes:
        text: the user's words; "" when none were understood; None when the client asked for an
            answer without a turn of the user.
        messages: the conversation, this turn included.
        now: local time.
    """

    text: str | None
    messages: Sequence[Mapping[str, Json]]
    now: datetime


@dataclass(frozen=True, slots=True)
class Reply:
    """What to say, and a timer to set in so many seconds."""

    text: str
    timer_s: float | None = None


def answer(question: Question) -> Reply:
    """The reply of the first rule that fits; there is always one."""
    if question.text is None:
        return Reply("Hello! Ask me for the time, the date, a sum or a timer.")
    if not question.text.strip():
        return Reply("Sorry, I did not catch that.")
    for pattern, rule in _RULES:
        reply = rule(question) if pattern.search(question.text) else None
        if reply is not None:
            return reply
    return Reply(
        f"I heard: {question.text.strip().rstrip('.!?,')}. I am a small demo without a language "
        "model, so I can tell you the time and the date, work out sums, and set a timer."
    )


def _time(question: Question) -> Reply:
    return Reply(f"It is {question.now.strftime('%I:%M %p').lstrip('0')}.")


def _date(question: Question) -> Reply:
    now = question.now
    return Reply(f"Today is {now.strftime('%A, %B')} {now.day}, {now.year}.")


def _timer(question: Question) -> Reply:
    seconds = find_duration_s(question.text or "")
    if seconds is None:
        return Reply("For how long should the timer run?")
    if not 1 <= seconds <= 24 * 3600:
        return Reply("I can set timers from one second to one day.")
    return Reply(f"Timer set for {spoken_duration(seconds)}.", timer_s=seconds)


def _sum(question: Question) -> Reply | None:
    result = answer_sum(question.text or "")
    return None if result is None else Reply(result)


def _repeat(question: Question) -> Reply:
    said = last_said(question.messages, "assistant")
    return Reply(said or "I have not said anything yet.")


def _story(question: Question) -> Reply:
    return Reply(
        "Once there was a lighthouse keeper who talked to the ships all night. The ships never "
        "answered, but they always found the harbour. One foggy evening a small boat called back "
        "and asked for the time. The keeper was so surprised that he forgot to look at the clock. "
        "Since then he wears a watch."
    )


def _says(text: str) -> Callable[[Question], Reply]:
    return lambda question: Reply(text)


def _rule(
    pattern: str, reply: Callable[[Question], Reply | None]
) -> tuple[re.Pattern[str], Callable[[Question], Reply | None]]:
    return re.compile(pattern, re.IGNORECASE), reply


# The first that fits wins: commands before questions, questions before small talk.
_RULES = (
    _rule(r"^\W*(please )?(stop|quiet|be quiet|enough|never ?mind|cancel)\b", _says("Okay.")),
    _rule(r"\b(say|repeat) (that|it)\b|\brepeat\b|\bwhat did you say\b|^\W*pardon\b", _repeat),
    _rule(r"\btimers?\b|\bremind me in\b|\bwake me (up )?in\b", _timer),
    _rule(r".", _sum),
    _rule(
        r"\bwhat('s| is)? the time\b|\bwhat time is it\b|\btime is it\b|\btell me the time\b", _time
    ),
    _rule(r"\b(what|which) day\b|\b(today's|the) date\b|\bwhat('s| is) today\b", _date),
    _rule(r"\bstory\b|\btell me something\b", _story),
    _rule(r"\bjoke\b", _says("Why did the microphone break up? It needed some feedback.")),
    _rule(r"\byour name\b|\bwho are you\b|\bwhat are you\b", _says("I am the local demo voice.")),
    _rule(
        r"\bwhat can you do\b|\bhelp\b",
        _says("I can tell you the time and the date, work out sums, and set a timer."),
    ),
    _rule(r"\bhow are you\b|\bhow do you do\b", _says("I am fine, thank you. And you?")),
    _rule(r"\bcan you hear me\b", _says("Yes, I can hear you.")),
    _rule(r"\bthank(s| you)\b", _says("You are welcome.")),
    _rule(r"\b(good ?bye|bye|see you|good night)\b", _says("Goodbye!")),
    _rule(r"\bgood (morning|afternoon|evening)\b", _says("Good day to you.")),
    _rule(r"\b(hello|hi|hey)\b", _says("Hello! What can I do for you?")),
    _rule(r"^\W*(yes|no|okay|ok|sure|right)\W*$", _says("All right.")),
)
