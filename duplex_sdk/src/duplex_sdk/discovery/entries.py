"""What installed distributions say about themselves: entry points, read without importing anything.

The standard library's ``entry_points()`` gives up on the whole environment when one distribution's
file is damaged, so distributions are read one by one here.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

__all__ = [
    "HOOKS_GROUP",
    "PLUGINS_GROUP",
    "EntryProblem",
    "InstalledEntry",
    "entries",
    "trouble",
]

PLUGINS_GROUP = "duplex.plugins"
HOOKS_GROUP = "duplex.hooks"

_PLUGIN_NAME = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
_VALUE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*(\.[^\W\d]\w*)*)?")


@dataclass(frozen=True, slots=True)
class InstalledEntry:
    """One line of one distribution's entry points.

    Attributes:
        name: left of the equals sign.
        value: right of it: ``package.module:attribute``.
        group: the entry-point group.
        distribution: the distribution's name.
        version: its version.
        requires: its declared dependencies, as PEP 508 lines.
        shadowed: other versions of the distribution that lie further back on the path.
    """

    name: str
    value: str
    group: str
    distribution: str
    version: str
    requires: tuple[str, ...] = field(default=(), repr=False, compare=False)
    shadowed: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def package(self) -> str:
        """The top-level package the value lies in."""
        return self.value.partition(":")[0].partition(".")[0].strip()

    def load(self) -> object:
        """Import what the value names.

        Raises:
            Exception: whatever the import raises; SystemExit too.
        """
        return importlib.metadata.EntryPoint(self.name, self.value, self.group).load()


@dataclass(frozen=True, slots=True)
class EntryProblem:
    """A distribution whose metadata cannot be read."""

    distribution: str
    reason: str


def entries(group: str) -> tuple[tuple[InstalledEntry, ...], tuple[EntryProblem, ...]]:
    """The entry points of a group, sorted by name, and what could not be read. Never raises."""
    found: dict[str, list[InstalledEntry]] = {}
    problems: list[EntryProblem] = []
    for distribution in importlib.metadata.distributions():
        try:
            mine = _of_distribution(distribution, group)
        except Exception as error:  # one damaged distribution must not hide the others
            reason = f"{type(error).__name__}: {error}"
            problems.append(EntryProblem(_any_name(distribution), reason))
            continue
        if mine:
            _add(found, mine)
    everything = [entry for mine in found.values() for entry in mine]
    everything.sort(key=lambda entry: (entry.name, entry.distribution))
    return tuple(everything), tuple(problems)


def _add(found: dict[str, list[InstalledEntry]], new: list[InstalledEntry]) -> None:
    """Keep a distribution's entries; of one that was there already only its version counts.

    An editable install may lie on the path twice; the first one is the one that imports.
    """
    key = re.sub(r"[-_.]+", "-", new[0].distribution).lower()
    first = found.setdefault(key, new)
    version = new[0].version
    if version not in (first[0].version, *first[0].shadowed):
        found[key] = [replace(entry, shadowed=(*entry.shadowed, version)) for entry in first]


def trouble(entry: InstalledEntry, all_entries: Iterable[InstalledEntry] = ()) -> str | None:
    """What is wrong with a plugin's entry as far as metadata tells; None: nothing."""
    if not _PLUGIN_NAME.fullmatch(entry.name):
        return "its name is not lower case letters, digits and hyphens"
    if not _VALUE.fullmatch(entry.value):
        return f"its entry point {entry.value!r} is not 'package.module:attribute'"
    others = sorted(
        {other.distribution for other in all_entries if other.name == entry.name}
        - {entry.distribution}
    )
    if others:
        return f"{', '.join(others)} claims this name as well"
    if not _package_exists(entry.package):
        return f"its package {entry.package!r} is not there"
    return None


def _of_distribution(
    distribution: importlib.metadata.Distribution, group: str
) -> list[InstalledEntry]:
    # Most distributions have none of ours; their metadata is not worth parsing.
    text = distribution.read_text("entry_points.txt")
    if not text or group not in text:
        return []
    points = [point for point in distribution.entry_points if point.group == group]
    if not points:
        return []
    # Each property of a distribution reads and parses its file again.
    metadata = distribution.metadata
    name = metadata["Name"] or _any_name(distribution)
    version = metadata["Version"] or "?"
    requires = tuple(metadata.get_all("Requires-Dist") or ())
    return [
        InstalledEntry(point.name, point.value, group, name, version, requires) for point in points
    ]


def _any_name(distribution: importlib.metadata.Distribution) -> str:
    """A name for the reader, also of a distribution without readable metadata."""
    try:
        name = distribution.metadata["Name"]
    except Exception:  # the damage is reported by the caller, a name is all that is wanted here
        name = None
    return name or str(getattr(distribution, "_path", "an unknown distribution"))


def _package_exists(package: str) -> bool:
    """Whether a top-level package could be imported; finding one runs none of its code."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
