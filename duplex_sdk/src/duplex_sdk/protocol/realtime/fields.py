"""Typed reading of what a client sent: each reader names the field it refuses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import RealtimeProtocolError

__all__ = ["MAX_ID_CHARS", "Fields", "as_number"]

MAX_ID_CHARS = 512
"""Longest id a client may name: events repeat it."""


def as_number(value: Any) -> float | int | None:
    """The value when it is a finite number that a float can hold, not a bool; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None


class Fields:
    """A client's JSON object; null counts as absent.

    Args:
        values: the object.
        path: where it lies in the message, put before the field's name in errors; may be empty.
        code: error code for a value of the wrong type.
    """

    __slots__ = ("_code", "_path", "values")

    def __init__(self, values: Mapping[str, Any], *, path: str = "", code: str = "bad_event"):
        self.values = values
        self._path = path
        self._code = code

    def param(self, name: str) -> str:
        """Path of a field, as errors give it."""
        return f"{self._path}.{name}" if self._path else name

    def refuse(self, name: str, problem: str) -> RealtimeProtocolError:
        """The error that says what is wrong with a field."""
        param = self.param(name)
        return RealtimeProtocolError(self._code, f"{param} {problem}", param=param)

    def get(self, *names: str) -> Any:
        """The value of the first name that is present and not null; None if none is."""
        for name in names:
            value = self.values.get(name)
            if value is not None:
                return value
        return None

    def text(self, name: str) -> str | None:
        """A string, or None when absent."""
        value = self.values.get(name)
        if value is None or isinstance(value, str):
            return value
        raise self.refuse(name, "must be a string")

    def identifier(self, name: str) -> str | None:
        """A string of at most ``MAX_ID_CHARS`` characters, or None when absent."""
        value = self.text(name)
        if value is not None and len(value) > MAX_ID_CHARS:
            raise self.refuse(name, f"must have at most {MAX_ID_CHARS} characters")
        return value

    def required_text(self, name: str) -> str:
        """A non-empty string."""
        value = self.text(name)
        if not value:
            raise self.refuse(name, "must be a non-empty string")
        return value

    def flag(self, name: str) -> bool | None:
        """A boolean, or None when absent."""
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise self.refuse(name, "must be true or false")

    def number(self, name: str, *, at_least: float | None = None) -> float | int | None:
        """A finite number, or None when absent."""
        value = self.values.get(name)
        if value is None:
            return None
        number = as_number(value)
        if number is None:
            raise self.refuse(name, "must be a finite number")
        if at_least is not None and number < at_least:
            raise self.refuse(name, f"must be at least {at_least:g}")
        return number

    def required_number(self, name: str, *, at_least: float | None = None) -> float | int:
        """A finite number."""
        number = self.number(name, at_least=at_least)
        if number is None:
            raise self.refuse(name, "must be a number")
        return number

    def integer(self, name: str, *, at_least: int | None = None) -> int | None:
        """A whole number, or None when absent."""
        number = self.number(name, at_least=at_least)
        if number is None or isinstance(number, int):
            return number
        if not number.is_integer():
            raise self.refuse(name, "must be a whole number")
        return int(number)

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """An object, or None when absent."""
        value = self.values.get(name)
        if value is None or isinstance(value, Mapping):
            return value
        raise self.refuse(name, "must be an object")

    def sequence(self, name: str) -> Sequence[Any] | None:
        """A list, or None when absent."""
        value = self.values.get(name)
        if value is None or isinstance(value, list | tuple):
            return value
        raise self.refuse(name, "must be a list")

    def within(self, name: str) -> Fields:
        """The fields of a nested object, empty when absent."""
        return Fields(self.mapping(name) or {}, path=self.param(name), code=self._code)
