"""The ``duplex_session`` section: text from flags and variables becomes what the engine takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec
from duplex_sdk.plugin import DuplexConfigError, DuplexSessionRuntimeConfig

from .errors import SettingsError

__all__ = ["read_session_limits"]


def read_session_limits(
    section: Mapping[str, Any], *, max_sessions: int
) -> DuplexSessionRuntimeConfig:
    """Read the section.

    Args:
        section: values as written; numbers may be text.
        max_sessions: the plugin's own, where nobody says another.

    Raises:
        SettingsError: an unknown key, or a value that cannot be, with its path.
    """
    hints = get_type_hints(DuplexSessionRuntimeConfig)
    values = {"max_sessions": max_sessions}
    values |= {name: _typed(value, hints.get(name)) for name, value in section.items()}
    try:
        return DuplexSessionRuntimeConfig.from_mapping(values)
    except DuplexConfigError as error:
        raise SettingsError(
            f"duplex_session.{error.param}: {error.message}"
            if error.param and not error.message.startswith(error.param)
            else f"duplex_session.{error.message}",
            hint="duplex serve --print-config lists all settings",
        ) from error
    except ValueError as error:
        raise SettingsError(f"duplex_session.{error}") from error


def _typed(value: Any, annotation: Any) -> Any:
    if not isinstance(value, str) or annotation is None:
        return value
    try:
        return msgspec.convert(value, annotation, strict=False)
    except msgspec.ValidationError:
        # Left as it is: the section's own check names the key.
        return value
