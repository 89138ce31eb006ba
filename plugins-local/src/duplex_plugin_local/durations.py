"""How long a person says a timer should run."""

from __future__ import annotations

from .numerals import spoken_value, take_number, words_of

__all__ = ["find_duration_s", "spoken_duration"]

_UNITS = {"second": 1, "minute": 60, "hour": 3600}


def find_duration_s(text: str) -> float | None:
    """The duration in a text, its parts added: "a minute and thirty seconds" is 90."""
    words = words_of(text)
    total, at, found = 0.0, 0, False
    while at < len(words):
        amount = _amount(words, at)
        unit = None if amount is None else _UNITS.get(_word(words, amount[1]).removesuffix("s"))
        if amount is None or unit is None:
            at += 1
            continue
        total += amount[0] * unit
        at = amount[1] + 1
        if words[at : at + 3] == ["and", "a", "half"]:
            total += unit / 2
            at += 3
        found = True
    return total if found else None


def spoken_duration(seconds: float) -> str:
    """A duration in words, such as ``1 minute and 30 seconds``."""
    parts = []
    rest = round(seconds, 1)
    for name, size in (("hour", 3600), ("minute", 60)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{int(count)} {name}{'s' if count != 1 else ''}")
    if rest or not parts:
        parts.append(f"{spoken_value(rest)} second{'s' if rest != 1 else ''}")
    return " and ".join(parts) if len(parts) < 3 else f"{parts[0]}, {parts[1]} and {parts[2]}"


def _word(words: list[str], at: int) -> str:
    return words[at] if at < len(words) else ""


def _amount(words: list[str], at: int) -> tuple[float, int] | None:
    number = take_number(words, at)
    if number is not None:
        return number
    if words[at : at + 3] == ["half", "a", "minute"] or words[at : at + 3] == [
        "half",
        "an",
        "hour",
    ]:
        return 0.5, at + 2
    if words[at] in ("a", "an", "one"):
        return 1.0, at + 1
    return None
