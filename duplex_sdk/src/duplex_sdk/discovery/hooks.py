"""Loading hook packages one by one, so that a broken one takes nothing else down."""

from __future__ import annotations

from dataclasses import dataclass

import pluggy

from .containment import ForeignCodeError, contained, describe
from .entries import HOOKS_GROUP, EntryProblem, InstalledEntry, entries
from .hookspecs import Hookspecs

__all__ = ["HookFailure", "LoadedHooks", "load_hooks"]


@dataclass(frozen=True, slots=True)
class HookFailure:
    """A hook package that was left out, and why."""

    name: str
    distribution: str
    reason: str


@dataclass(frozen=True, slots=True)
class LoadedHooks:
    """The hooks that are at work.

    Attributes:
        manager: call hooks through ``manager.hook``.
        failures: packages left out, for ``duplex plugins doctor``.
        problems: distributions that could not be read.
    """

    manager: pluggy.PluginManager
    failures: tuple[HookFailure, ...]
    problems: tuple[EntryProblem, ...]


def load_hooks() -> LoadedHooks:
    """Import all installed hook packages. Never raises because of one of them."""
    manager = pluggy.PluginManager("duplex")
    manager.add_hookspecs(Hookspecs)
    found, problems = entries(HOOKS_GROUP)
    failures = []
    for entry in found:
        reason = _register(manager, entry)
        if reason is not None:
            failures.append(HookFailure(entry.name, entry.distribution, reason))
    return LoadedHooks(manager, tuple(failures), problems)


def _register(manager: pluggy.PluginManager, entry: InstalledEntry) -> str | None:
    """Add one package; what is wrong with it, if anything."""
    name = f"{entry.distribution}:{entry.name}"
    try:
        module = contained(entry.load)
    except ForeignCodeError as error:
        return str(error)
    try:
        manager.register(module, name=name)
        # Makes a misspelt hook name an error instead of a hook that is never called.
        manager.check_pending()
    except (pluggy.PluginValidationError, ValueError, TypeError) as error:
        if manager.has_plugin(name):
            manager.unregister(name=name)
        return describe(error)
    return None
