"""A plugin as a folder of sources: its name, how it is imported, whether it has changed."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duplex_sdk.errors import DuplexError

__all__ = ["PluginSource", "SourceWatch"]

_GROUP = "duplex.plugins"
_WATCHED = frozenset({".py", ".toml", ".yaml", ".yml", ".json"})
_IGNORED = frozenset({"__pycache__", "build", "dist", "node_modules", "tests"})


@dataclass(frozen=True, slots=True)
class PluginSource:
    """A plugin's project folder.

    Attributes:
        folder: where its ``pyproject.toml`` lies.
        plugin: the name it is served by.
        project: the ``project`` table of that file.
    """

    folder: Path
    plugin: str
    project: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> PluginSource:
        """Read the project of a folder.

        Raises:
            DuplexError: it is no project, or one without exactly one plugin.
        """
        path = folder / "pyproject.toml"
        try:
            project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
        except (OSError, ValueError) as error:
            raise DuplexError(
                f"{folder} is no plugin project: {error}",
                hint="`duplex new-plugin NAME` begins one",
            ) from error
        names = list(project.get("entry-points", {}).get(_GROUP, {}))
        if len(names) != 1:
            raise DuplexError(
                f"{path} has {len(names) or 'no'} entry points of the group {_GROUP}",
                hint="a plugin is one line there, such as: name = 'package:plugin'",
            )
        return cls(folder.absolute(), names[0], project)

    @property
    def import_root(self) -> Path:
        """The folder that holds its package."""
        nested = self.folder / "src"
        return nested if nested.is_dir() else self.folder

    def write_metadata(self, site: Path) -> None:
        """Write what an installation would, so that the plugin is found without one."""
        name = str(self.project.get("name", self.plugin))
        version = str(self.project.get("version", "0"))
        needs = [f"Requires-Dist: {line}" for line in self.project.get("dependencies", ())]
        head = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text("\n".join([*head, *needs, ""]), encoding="utf-8")
        points = self.project["entry-points"][_GROUP]
        lines = [f"{key} = {value}" for key, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{_GROUP}]", *lines, ""]))


class SourceWatch:
    """Tells once for each change of a folder's sources, when nothing moves any more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._told = self._last = dict(_stamps(folder))

    def changed(self) -> bool:
        """Whether sources changed, and are as they were at the call before."""
        now = dict(_stamps(self._folder))
        # An editor writes several files, or one in steps: half a change starts no server.
        settled, self._last = now == self._last, now
        if not settled or now == self._told:
            return False
        self._told = now
        return True


def _stamps(folder: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in _IGNORED and name[0] != "."]
        for name in files:
            if Path(name).suffix not in _WATCHED:
                continue
            try:
                status = os.stat(path := Path(root, name))
            except FileNotFoundError:
                continue
            yield path, (status.st_mtime_ns, status.st_size)
