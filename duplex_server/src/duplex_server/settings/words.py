"""What is wrong with a setting, in words of the file it stands in rather than of our classes."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pydantic import ValidationError

from .errors import SettingsError
from .model import ServerSettings, ServingSettings, StageSettings

__all__ = ["no_such_setting", "refusal"]

_MAPPING = "this is a section of names and values"
_LIST = "this is a list"
_TEXT = "this is text"
_WHOLE = "this is a whole number"
_NUMBER = "this is a number"
_EXPECTED = {
    "model_type": _MAPPING,
    "dict_type": _MAPPING,
    "tuple_type": _LIST,
    "string_type": _TEXT,
    "path_type": "this is a path",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "this is a number with an end",
    "invalid_key": "a name is text; put it in quotes",
    "invalid-json-value": "this is JSON: text, numbers, lists and mappings of them",
    "string_pattern_mismatch": "this is a kind of device and perhaps its number, as in cuda:0",
    "string_too_short": "this is empty",
    "too_short": "this is empty",
    "greater_than": "this is a number above {gt}",
    "greater_than_equal": "this is {ge} or more",
    "less_than": "this is a number below {lt}",
    "less_than_equal": "this is {le} at most",
    "literal_error": "this is {expected}",
}
_KEY = "[key]"
_ALL_FLAGS = "duplex serve --help lists all flags"


def refusal(error: ValidationError, blame: Callable[[str], str]) -> SettingsError:
    """The first thing that is wrong: its path, what is expected there, where it came from.

    Args:
        error: what checking the settings led to.
        blame: where the value at a path came from, as words to put behind a message.
    """
    # Never the value itself: it may be a key.
    first = error.errors(include_url=False, include_input=False)[0]
    location = first["loc"]
    path = ".".join(str(part) for part in location if part != _KEY)
    if first["type"] == "extra_forbidden":
        return no_such_setting(path, _section_around(location).model_fields, blame(path))
    kind = "invalid_key" if _KEY in location else first["type"]
    expected = _EXPECTED.get(kind, first["msg"].removeprefix("Value error, "))
    text = expected.format_map(first.get("ctx", {}))
    return SettingsError(f"{path}: {text}{blame(path)}", hint=_ALL_FLAGS)


def no_such_setting(
    path: str, known: Collection[str] | Mapping[str, Any], blamed: str
) -> SettingsError:
    """A name that nothing goes by, with the one that was probably meant.

    Args:
        path: of the name.
        known: the names there are beside it.
        blamed: where it came from, to put behind the message.
    """
    name = path.rpartition(".")[2]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(known)}"
    return SettingsError(f"{path}: no such setting{blamed}", hint=hint)


def _section_around(
    location: tuple[int | str, ...],
) -> type[ServerSettings | ServingSettings | StageSettings]:
    match location:
        case ("serving", _):
            return ServingSettings
        case ("stages", _, _):
            return StageSettings
    return ServerSettings
