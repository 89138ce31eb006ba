"""Loading hook packages one by one, so that a broken one takes nothing else down."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pluggy

from .containment import ForeignCodeError, contained, describe
from .entries import HOOKS_GROUP, EntryProblem, InstalledEntry, entries
from .hookspecs import Hookspecs

__all__ = ["HOOK_LIMIT_S", "HookAnswer", "HookFailure", "LoadedHooks", "load_hooks"]

HOOK_LIMIT_S = 10.0
"""The longest that importing a hook package may take: every command waits for it."""


@dataclass(frozen=True, slots=True)
class HookFailure:
    """A hook package that was left out, and why."""

    name: str
    distribution: str
    reason: str


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What one package said to a hook.

    Attributes:
        package: its name among the loaded ones.
        value: what it returned; None when it failed.
        failure: what it raised, in one line; None: it answered.
    """

    package: str
    value: Any
    failure: str | None = None


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

    def ask(
        self, hook: str, *, limit_s: float | None = None, **arguments: object
    ) -> Iterator[HookAnswer]:
        """Call a hook package by package, in pluggy's order; what one raises is its answer.

        Each package is called when the iterator gets to it, so whoever needs the first answer
        stops there.

        Args:
            hook: its name.
            limit_s: longest that one package may take, on a thread of its own; None: any time.
            arguments: of the hook.
        """
        offered = self.manager.get_plugins()
        for implementation in reversed(getattr(self.manager.hook, hook).get_hookimpls()):
            others = offered - {implementation.plugin}
            caller = self.manager.subset_hook_caller(hook, others)
            yield _answer(implementation.plugin_name, caller, arguments, limit_s)


def load_hooks(limit_s: float | None = None) -> LoadedHooks:
    """Import all installed hook packages. Never raises because of one of them.

    Args:
        limit_s: longest that the import of one may take; None: ``HOOK_LIMIT_S``.
    """
    manager = pluggy.PluginManager("duplex")
    manager.add_hookspecs(Hookspecs)
    found, problems = entries(HOOKS_GROUP)
    failures = []
    for entry in found:
        reason = _register(manager, entry, HOOK_LIMIT_S if limit_s is None else limit_s)
        if reason is not None:
            failures.append(HookFailure(entry.name, entry.distribution, reason))
    return LoadedHooks(manager, tuple(failures), problems)


def _answer(
    package: str,
    caller: pluggy.HookCaller,
    arguments: Mapping[str, object],
    limit_s: float | None,
) -> HookAnswer:
    try:
        value = contained(lambda: caller(**arguments), limit_s=limit_s)
    except ForeignCodeError as error:
        return HookAnswer(package, None, str(error))
    if not (caller.spec and caller.spec.opts["firstresult"]):
        # Where all answers count there is a list of them, here with one or none.
        value = value[0] if value else None
    return HookAnswer(package, value)


def _register(manager: pluggy.PluginManager, entry: InstalledEntry, limit_s: float) -> str | None:
    """Add one package; what is wrong with it, if anything."""
    name = f"{entry.distribution}:{entry.name}"
    try:
        module = contained(entry.load, limit_s=limit_s)
    except ForeignCodeError as error:
        return str(error)
    try:
        manager.register(module, name=name)
        # Makes a misspelt hook name an error instead of a hook that is never called.
        manager.check_pending()
        _refuse_coroutines(manager, module)
    except (pluggy.PluginValidationError, ValueError, TypeError) as error:
        if manager.has_plugin(name):
            manager.unregister(name=name)
        return describe(error)
    return None


def _refuse_coroutines(manager: pluggy.PluginManager, module: object) -> None:
    """A hook that is a coroutine would only be made, never run.

    Raises:
        TypeError: one is.
    """
    for caller in manager.get_hookcallers(module) or ():
        for implementation in caller.get_hookimpls():
            function = implementation.function
            if implementation.plugin is module and inspect.iscoroutinefunction(function):
                raise TypeError(
                    f"{caller.name} is an `async def`: a hook is a plain function that returns"
                    " an object, whose methods may be coroutines"
                )
