"""The settings file: YAML with one mapping at the top."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from .errors import SettingsError

__all__ = ["read_settings_file"]


def read_settings_file(path: Path) -> dict[str, Any]:
    """Read a settings file; an empty one says nothing.

    Raises:
        SettingsError: it cannot be read, is not YAML, or holds no mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise SettingsError(f"cannot read the settings file {path}: {error}") from error
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingsError(
            f"{path} is not YAML: {' '.join(str(error).split())}",
            hint="the file is a mapping such as 'serving: {port: 8000}'",
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise SettingsError(
            f"{path} holds no settings", hint="its top level is a mapping of names to values"
        )
    return content
