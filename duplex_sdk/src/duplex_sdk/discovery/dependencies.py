"""Whether what a distribution declares to need is installed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable

from packaging.requirements import InvalidRequirement, Requirement

from .report import Check

__all__ = ["check_dependencies"]


def check_dependencies(requires: Iterable[str]) -> Check:
    """Look at the direct dependencies of a distribution, without its extras."""
    missing = [line for line in map(_unmet, requires) if line is not None]
    if not missing:
        return Check("dependencies", True, "all there")
    return Check(
        "dependencies",
        False,
        "; ".join(missing),
        hint="pip install " + " ".join(f"'{line.partition(' (')[0]}'" for line in missing),
    )


def _unmet(line: str) -> str | None:
    """The requirement when it is not met, with what is there instead."""
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        return f"{line} (cannot be read)"
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return None
    wanted = f"{requirement.name}{requirement.specifier}"
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{wanted} (missing)"
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"{wanted} (installed: {version})"
