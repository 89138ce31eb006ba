"""The settings file: YAML with one mapping at the top."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .errors import SettingsError

__all__ = ["SettingsFile", "read_settings_file"]

_DEEPEST = 16
_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What a settings file says.

    Attributes:
        content: names and values, sections nested.
        lines: where each value, entry of a list and section begins, by dotted path; the first line
            is 1.
    """

    content: dict[str, Any]
    lines: dict[str, int]


def read_settings_file(path: Path) -> SettingsFile:
    """Read a settings file; an empty one says nothing.

    Raises:
        SettingsError: it cannot be read, is not YAML, holds no mapping, or says a name twice.
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
        told = tuple(_lines(yaml.compose(text, Loader=yaml.SafeLoader)))
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
    return SettingsFile(content, _each_said_once(told, path))


def _each_said_once(told: Iterable[tuple[str, int]], path: Path) -> dict[str, int]:
    lines: dict[str, int] = {}
    for name, line in told:
        if name in lines:
            # YAML would take the second and drop the first, whole sections too, without a word.
            raise SettingsError(
                f"{name} is said twice (from {path}, lines {lines[name]} and {line})"
            )
        lines[name] = line
    return lines


def _lines(node: yaml.Node | None, path: str = "") -> Iterator[tuple[str, int]]:
    # An alias may lead back to what it stands in.
    if path.count(".") > _DEEPEST:
        return
    for name, at, value in _parts(node):
        here = f"{path}.{name}" if path else name
        yield here, at.start_mark.line + 1
        yield from _lines(value, here)


def _parts(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """Name, where it stands and value of everything in a mapping or a list."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag != _MERGE:
                yield str(key.value), key, value
    elif isinstance(node, yaml.SequenceNode):
        for index, entry in enumerate(node.value):
            yield str(index), entry, entry
