"""The ``duplex_session`` section: text from flags and variables becomes what the engine takes."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from duplex_sdk.plugin import DuplexConfigError, DuplexSessionRuntimeConfig

from .errors import SettingsError
from .words import no_such_setting

__all__ = ["read_session_limits"]

_ALL_SETTINGS = "duplex serve --print-config lists all settings"
_KINDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    types.NoneType: "null",
}


def read_session_limits(
    section: Mapping[str, Any], *, max_sessions: int, blame: Callable[[str], str]
) -> DuplexSessionRuntimeConfig:
    """Read the section.

    Args:
        section: values as written; numbers may be text.
        max_sessions: the plugin's own, where nobody says another.
        blame: where the value at a path came from, as words to put behind a message.

    Raises:
        SettingsError: an unknown key, or a value that cannot be, with its path.
    """
    hints = get_type_hints(DuplexSessionRuntimeConfig)
    values: dict[str, Any] = {"max_sessions": max_sessions}
    for name, value in section.items():
        path = f"duplex_session.{name}"
        if name not in hints:
            raise no_such_setting(path, hints, blame(path))
        try:
            # Flags and variables bring text, whatever the type.
            values[name] = msgspec.convert(value, hints[name], strict=not isinstance(value, str))
        except msgspec.ValidationError as error:
            told = f"{path}: this is {_expected(hints[name])}{blame(path)}"
            raise SettingsError(told, hint=_ALL_SETTINGS) from error
    try:
        return DuplexSessionRuntimeConfig.from_mapping(values)
    except (DuplexConfigError, ValueError) as error:
        # It begins with the name that it is about.
        path = f"duplex_session.{str(error).partition(' ')[0]}"
        told = f"duplex_session.{error}{blame(path)}"
        raise SettingsError(told, hint=_ALL_SETTINGS) from error


def _expected(annotation: Any) -> str:
    """A type as a person would say it."""
    if get_origin(annotation) is Literal:
        return " or ".join(repr(choice) for choice in get_args(annotation))
    if get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(map(_expected, get_args(annotation)))
    return _KINDS[annotation]
