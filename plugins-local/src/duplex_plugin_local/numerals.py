"""Numbers in words and digits: as people say them and as a recogniser writes them."""

from __future__ import annotations

import re

__all__ = ["comparable", "spoken_value", "take_number", "words_of"]

_TEENS_AND_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SMALL = {word: value for value, word in enumerate(_TEENS_AND_ONES)} | {
    word: 20 + 10 * index for index, word in enumerate(_TENS)
}
_SCALES = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_TOKEN = re.compile(r"\d[\d,]*(?:\.\d+)?|[a-z]+|[+*/%-]")


def words_of(text: str) -> list[str]:
    """Lower-case words, numbers and arithmetic signs of a text; "twenty-five" is two words."""
    text = re.sub(r"(?<=[a-z])-(?=[a-z])", " ", text.lower().replace("'", ""))
    return [token.replace(",", "") for token in _TOKEN.findall(text)]


def take_number(words: list[str], start: int) -> tuple[float, int] | None:
    """Read a number that begins at a word.

    Returns:
        Its value and the index after it, or None where no number begins.
    """
    if start < len(words) and _DIGITS.fullmatch(words[start]):
        return _with_scale(words, float(words[start]), start + 1)
    total, group, at, previous = 0, 0, start, 0
    while at < len(words):
        word = words[at]
        if word in _SMALL and _joins(previous, _SMALL[word], first=at == start):
            previous = _SMALL[word]
            group += previous
        elif word == "hundred" and (0 < group < 10 or words[start] in ("a", "hundred")):
            group, previous = max(group, 1) * 100, 100
        elif word in _SCALES and (group or words[start] == "a"):
            total += max(group, 1) * _SCALES[word]
            group, previous = 0, 100
        elif not _glue(words, at, start):
            break
        at += 1
    if at == start or (at == start + 1 and words[start] == "a"):
        return None
    return _fraction(words, total + group, at)


def _joins(previous: int, value: int, *, first: bool) -> bool:
    """Whether a small number goes on with the one before: "twenty five", "hundred seven"."""
    return first or previous == 100 or (20 <= previous <= 90 and 0 < value < 10)


def _glue(words: list[str], at: int, start: int) -> bool:
    """The "a" of "a hundred", the "and" of "a hundred and five"."""
    following = words[at + 1] if at + 1 < len(words) else ""
    if words[at] == "a":
        return at == start and (following == "hundred" or following in _SCALES)
    return (
        words[at] == "and"
        and at > start
        and (words[at - 1] == "hundred" or words[at - 1] in _SCALES)
        and following in _SMALL
    )


def _with_scale(words: list[str], value: float, at: int) -> tuple[float, int]:
    scale = {"hundred": 100, **_SCALES}.get(words[at] if at < len(words) else "")
    return (value, at) if scale is None else (value * scale, at + 1)


def _fraction(words: list[str], value: float, at: int) -> tuple[float, int]:
    """The digits after "point", spoken one by one or recognised as one number."""
    if at >= len(words) or words[at] != "point":
        return value, at
    digits = ""
    end = at + 1
    while end < len(words) and (words[end].isdigit() or _SMALL.get(words[end], 10) < 10):
        digits += words[end] if words[end].isdigit() else str(_SMALL[words[end]])
        end += 1
    return (value + float(f"0.{digits}"), end) if digits else (value, at)


def spoken_value(value: float) -> str:
    """A number as it is written for the voice: at most three decimals, thousands grouped."""
    text = f"{abs(value):,.3f}".rstrip("0").rstrip(".")
    return f"minus {text}" if value < 0 and text != "0" else text


def comparable(text: str) -> list[str]:
    """The words of a text, so that a transcript can be compared with what was said.

    Lower case, no punctuation, numbers in digits, "p.m." as one word, the "oh" of "three oh five"
    left out.
    """
    text = re.sub(r"\b([ap])\.? ?m\b\.?", r"\1m", text.lower())
    words = words_of(re.sub(r"(?<!\d)\.|\.(?!\d)", " ", text))
    found: list[str] = []
    at = 0
    while at < len(words):
        number = take_number(words, at)
        if number is not None:
            found.append(f"{number[0]:g}")
            at = number[1]
            continue
        if words[at] not in ("o", "oh") or not found or not found[-1].isdigit():
            found.append(words[at])
        at += 1
    return found
