"""The ``duplex_session`` section: text from flags and variables becomes what the engine takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec
from duplex_sdk.plugin import DuplexConfigError, DuplexSessionRuntimeConfig

from .errors import SettingsError
from .words import no_such_setting

__all__ = ["read_session_limits"]

_WORD = re.compile(r"[a-z_]+")


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
    for name in section:
        if name not in hints:
            path = f"duplex_session.{name}"
            raise no_such_setting(path, hints, blame(path))
    values = {"max_sessions": max_sessions}
    values |= {name: _typed(value, hints.get(name)) for name, value in section.items()}
    try:
        return DuplexSessionRuntimeConfig.from_mapping(values)
    except DuplexConfigError as error:
        message = error.message
        if error.param and not message.startswith(error.param):
            message = f"{error.param}: {message}"
        raise _refused(message, section, blame) from error
    except ValueError as error:
        raise _refused(str(error), section, blame) from error


def _refused(
    message: str, section: Mapping[str, Any], blame: Callable[[str], str]
) -> SettingsError:
    """The error, with the origin of whichever value it names first."""
    words = _WORD.findall(message)
    path = next((f"duplex_session.{word}" for word in words if word in section), "duplex_session")
    return SettingsError(
        f"duplex_session.{message}{blame(path)}",
        hint="duplex serve --print-config lists all settings",
    )


def _typed(value: Any, annotation: Any) -> Any:
    if not isinstance(value, str) or annotation is None:
        return value
    try:
        return msgspec.convert(value, annotation, strict=False)
    except msgspec.ValidationError:
        # Left as it is: the section's own check names the key.
        return value
