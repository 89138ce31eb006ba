"""The settings file: YAML with one mapping at the top."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .errors import SettingsError

__all__ = ["SettingsFile", "read_settings_file"]


_DEEPEST = 16


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What a settings file says.

    Attributes:
        content: names and values, sections nested.
        lines: where each value and each section begins, by dotted path; the first line is 1.
    """

    content: dict[str, Any]
    lines: dict[str, int]


def read_settings_file(path: Path) -> SettingsFile:
    """Read a settings file; an empty one says nothing.

    Raises:
        SettingsError: it cannot be read, is not YAML, or holds no mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"cannot read the settings file {path}: {error.strerror}",
            hint="--config names it; without it ./duplex.yaml is read where there is one",
        ) from error
    except UnicodeError as error:
        raise SettingsError(
            f"the settings file {path} is not text: {error}", hint="save it as UTF-8"
        ) from error
    try:
        content = yaml.safe_load(text)
        lines = dict(_lines(yaml.compose(text, Loader=yaml.SafeLoader)))
    except yaml.YAMLError as error:
        raise SettingsError(
            f"{path} is not YAML: {' '.join(str(error).split())}",
            hint="the file is a mapping such as 'serving: {port: 8000}'",
        ) from error
    if content is None:
        return SettingsFile({}, {})
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise SettingsError(
            f"{path} holds no settings", hint="its top level is a mapping of names to values"
        )
    return SettingsFile(content, lines)


def _lines(node: yaml.Node | None, path: str = "") -> Iterator[tuple[str, int]]:
    # An alias may lead back to what it stands in.
    if not isinstance(node, yaml.MappingNode) or path.count(".") > _DEEPEST:
        return
    for key, value in node.value:
        here = f"{path}.{key.value}" if path else str(key.value)
        yield here, key.start_mark.line + 1
        yield from _lines(value, here)
