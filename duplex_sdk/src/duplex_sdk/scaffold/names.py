"""What a plugin may be called, and what follows from its name."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass

from .errors import PluginNameError

__all__ = ["ProjectName"]

LONGEST = 40
_OURS = "duplex"
_PATH_SIGNS = ("/", "\\", "..")


@dataclass(frozen=True, slots=True)
class ProjectName:
    """The name of a plugin, checked: what users type, and the name of the project's folder.

    Attributes:
        plugin: lower case letters, digits and single hyphens, a letter first, at most 40 of them.

    Raises:
        PluginNameError: it breaks a rule.
    """

    plugin: str

    def __post_init__(self) -> None:
        broken = _broken_rule(self.plugin)
        if broken is None:
            return
        shown = self.plugin if len(self.plugin) <= LONGEST else f"{self.plugin[:LONGEST]}..."
        raise PluginNameError(f"{shown!r} cannot name a plugin: {broken}", hint=_hint(self.plugin))

    @property
    def distribution(self) -> str:
        """What is installed."""
        return f"duplex-plugin-{self.plugin}"

    @property
    def package(self) -> str:
        """What is imported."""
        return f"duplex_plugin_{self.plugin.replace('-', '_')}"


def _broken_rule(name: str) -> str | None:
    """The first rule that a name breaks; the general ones before the particular."""
    if not name:
        return "it is empty"
    if any(sign in name for sign in _PATH_SIGNS):
        return "it is a path; the folder is made where you are"
    if len(name) > LONGEST:
        return f"it has {len(name)} characters, the longest may have {LONGEST}"
    if not re.fullmatch(r"[a-z0-9-]+", name, re.ASCII):
        return "use lower case letters a-z, digits and hyphens only"
    if not re.match(r"[a-z]", name):
        return "it must begin with a letter"
    # An installer folds hyphens and drops those at the end: the package would have another name.
    if "--" in name or name.endswith("-"):
        return "a hyphen stands alone, between letters or digits"
    return _taken(name)


def _taken(name: str) -> str | None:
    module = name.replace("-", "_")
    if name == _OURS or name.startswith(f"{_OURS}-"):
        return f"names that begin with {_OURS!r} belong to this project"
    if keyword.iskeyword(module):
        return "it is a word of the Python language"
    if module in sys.stdlib_module_names:
        return "it is a module of Python's standard library"
    return None


def _hint(name: str) -> str:
    """A name close to it that is allowed, else an example."""
    mended = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    mended = re.sub(r"^[0-9-]+", "", mended)
    if _broken_rule(mended) is None:
        return f"duplex new-plugin {mended}"
    return "choose a name such as acme-voice"
