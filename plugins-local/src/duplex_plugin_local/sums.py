"""Sums that people say: "what is seventeen plus twenty five"."""

from __future__ import annotations

from collections.abc import Callable

from .numerals import spoken_value, take_number, words_of

__all__ = ["answer_sum"]

_SIGNS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("multiplied", "by"), "times"),
    (("divided", "by"), "divided by"),
    (("take", "away"), "minus"),
    (("plus",), "plus"),
    (("and",), "plus"),
    (("+",), "plus"),
    (("minus",), "minus"),
    (("less",), "minus"),
    (("-",), "minus"),
    (("times",), "times"),
    (("x",), "times"),
    (("*",), "times"),
    (("over",), "divided by"),
    (("/",), "divided by"),
)
_COMPUTE: dict[str, Callable[[float, float], float]] = {
    "plus": lambda left, right: left + right,
    "minus": lambda left, right: left - right,
    "times": lambda left, right: left * right,
    "divided by": lambda left, right: left / right,
}
_LARGEST = 1e15


def answer_sum(text: str) -> str | None:
    """The answer to the first sum in a text; None when it holds none.

    Multiplication and division go before addition and subtraction.
    """
    words = words_of(text)
    for start in range(len(words)):
        percent = _percent(words, start)
        if percent is not None:
            return percent
        terms = _terms(words, start)
        if terms is not None:
            return _say(*terms)
    return None


def _percent(words: list[str], start: int) -> str | None:
    part = take_number(words, start)
    if part is None or part[1] >= len(words):
        return None
    at = part[1]
    if words[at] in ("percent", "%"):
        at += 1
    elif words[at : at + 2] == ["per", "cent"]:
        at += 2
    else:
        return None
    whole = take_number(words, at + 1) if words[at : at + 1] == ["of"] else None
    if whole is None:
        return None
    result = part[0] * whole[0] / 100
    return f"{spoken_value(part[0])} percent of {spoken_value(whole[0])} is {spoken_value(result)}."


def _terms(words: list[str], start: int) -> tuple[list[float], list[str]] | None:
    first = take_number(words, start)
    if first is None:
        return None
    numbers, signs, at = [first[0]], [], first[1]
    while True:
        sign = _sign(words, at)
        following = take_number(words, sign[1]) if sign else None
        if sign is None or following is None:
            break
        signs.append(sign[0])
        numbers.append(following[0])
        at = following[1]
    return (numbers, signs) if signs else None


def _sign(words: list[str], at: int) -> tuple[str, int] | None:
    for spelling, sign in _SIGNS:
        if tuple(words[at : at + len(spelling)]) == spelling:
            return sign, at + len(spelling)
    return None


def _say(numbers: list[float], signs: list[str]) -> str:
    question = spoken_value(numbers[0]) + "".join(
        f" {sign} {spoken_value(number)}" for sign, number in zip(signs, numbers[1:], strict=True)
    )
    try:
        result = _evaluate(numbers, signs)
    except ZeroDivisionError:
        return "Nothing can be divided by zero."
    if abs(result) > _LARGEST:
        return "That number is too long to say."
    return f"{question} is {spoken_value(result)}."


def _evaluate(numbers: list[float], signs: list[str]) -> float:
    values, kept = [numbers[0]], []
    for sign, number in zip(signs, numbers[1:], strict=True):
        if sign in ("times", "divided by"):
            values[-1] = _COMPUTE[sign](values[-1], number)
        else:
            kept.append(sign)
            values.append(number)
    result = values[0]
    for sign, number in zip(kept, values[1:], strict=True):
        result = _COMPUTE[sign](result, number)
    return result
