"""Which plugins are installed, and how one gets from a name to a descriptor and a plugin."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from duplex_sdk.errors import (
    DuplexError,
    PluginBrokenError,
    PluginConflictError,
    PluginIncompatibleError,
    PluginNotFoundError,
)

from .containment import ForeignCodeError, contained
from .entries import PLUGINS_GROUP, EntryProblem, InstalledEntry, entries, trouble

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexModelPlugin, PluginSpec

__all__ = [
    "InstalledPlugin",
    "PluginList",
    "find",
    "find_entry",
    "installed",
    "load_plugin",
    "read_descriptor",
    "require_known",
]


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """One installed plugin as its metadata describes it.

    Attributes:
        name: what users call it.
        distribution: the package that brings it.
        version: of that package.
        value: where its descriptor lies.
        trouble: what is wrong with it as far as metadata tells; None: nothing.
    """

    name: str
    distribution: str
    version: str
    value: str
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class PluginList:
    """What is installed, and which distributions could not be read."""

    plugins: tuple[InstalledPlugin, ...]
    problems: tuple[EntryProblem, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The plugins' names, each once."""
        return tuple(dict.fromkeys(plugin.name for plugin in self.plugins))


def installed() -> PluginList:
    """The installed plugins, sorted by name; metadata only, so that a broken one breaks nothing."""
    found, problems = entries(PLUGINS_GROUP)
    plugins = tuple(
        InstalledPlugin(
            entry.name, entry.distribution, entry.version, entry.value, trouble(entry, found)
        )
        for entry in found
    )
    return PluginList(plugins, problems)


def find(name: str) -> PluginSpec:
    """The descriptor of an installed plugin. Imports that one descriptor and nothing else.

    Raises:
        PluginNotFoundError: nobody offers it.
        PluginConflictError: several distributions do.
        PluginBrokenError: its descriptor cannot be imported, or is none; the cause is chained.
        PluginIncompatibleError: it wants another plugin API.
    """
    return read_descriptor(find_entry(name))


def find_entry(name: str) -> InstalledEntry:
    """The entry point of an installed plugin, imported by nobody yet.

    Raises:
        PluginNotFoundError: nobody offers it.
        PluginConflictError: several distributions do.
    """
    found, _ = entries(PLUGINS_GROUP)
    matching = [entry for entry in found if entry.name == name]
    if not matching:
        raise _not_found(name, list(dict.fromkeys(entry.name for entry in found)))
    if len(matching) > 1:
        claimants = ", ".join(f"{entry.distribution} {entry.version}" for entry in matching)
        raise PluginConflictError(
            f"several distributions offer a plugin called '{name}': {claimants}",
            hint=f"pip uninstall {matching[-1].distribution}",
        )
    return matching[0]


def require_known(name: str) -> None:
    """Make sure that somebody offers a plugin.

    Raises:
        PluginNotFoundError: nobody does.
    """
    names = installed().names
    if name not in names:
        raise _not_found(name, list(names))


def read_descriptor(entry: InstalledEntry, *, prints: TextIO | None = None) -> PluginSpec:
    """Import a plugin's descriptor and check it.

    Args:
        entry: of the plugin.
        prints: takes what the import prints; None: stderr does.

    Raises:
        PluginBrokenError: it cannot be imported, or is none; the cause is chained.
        PluginIncompatibleError: it wants another plugin API.
    """
    from duplex_sdk.plugin import PluginSpec, check_api

    wrong = trouble(entry)
    if wrong is not None:
        raise _broken(entry, wrong)
    try:
        value = contained(entry.load, prints=prints)
    except ForeignCodeError as error:
        cause = error.__cause__
        raise _broken(entry, f"importing {entry.value!r} failed: {error}", cause) from cause
    if not isinstance(value, PluginSpec):
        raise _broken(entry, f"{entry.value!r} is a {type(value).__name__}, not a PluginSpec")
    if value.name != entry.name:
        raise _broken(entry, f"its descriptor calls it '{value.name}'")
    check_api(value.name, value.api, distribution=entry.distribution)
    return value


def load_plugin(
    spec: PluginSpec, options: Mapping[str, Any] | None = None, *, distribution: str | None = None
) -> DuplexModelPlugin:
    """Make the plugin object of a descriptor; imports its light half.

    Args:
        spec: as :func:`find` returns it.
        options: values for its options, text or typed.
        distribution: whom to blame, when known.

    Raises:
        PluginSpecError: an option it does not have, or a value it cannot take.
        PluginIncompatibleError: it wants another plugin API.
        PluginBrokenError: its light half cannot be imported or is no plugin; the cause is chained.
    """
    from duplex_sdk.plugin import PluginSpecError, load_duplex_plugin, resolve_options

    resolved = resolve_options(spec, options or {})
    try:
        return contained(lambda: load_duplex_plugin(spec, resolved))
    except ForeignCodeError as error:
        cause = error.__cause__
        if isinstance(cause, (PluginIncompatibleError, PluginSpecError)):
            raise cause from None
        hint = cause.hint if isinstance(cause, DuplexError) else None
        raise PluginBrokenError(
            f"plugin '{spec.name}' cannot be loaded: {error}",
            hint=hint or _import_hint(cause, distribution or f"duplex-plugin-{spec.name}"),
        ) from cause


def _not_found(name: str, names: list[str]) -> PluginNotFoundError:
    close = difflib.get_close_matches(name, names, n=1)
    return PluginNotFoundError(
        f"no plugin called '{name}'; installed: {', '.join(names) or 'none'}",
        hint=f"did you mean '{close[0]}'?" if close else f"pip install duplex-plugin-{name}",
    )


def _broken(
    entry: InstalledEntry, reason: str, cause: BaseException | None = None
) -> PluginBrokenError:
    return PluginBrokenError(
        f"plugin '{entry.name}' ({entry.distribution} {entry.version}) is broken: {reason}",
        hint=_import_hint(cause, entry.distribution),
    )


def _import_hint(cause: BaseException | None, distribution: str) -> str:
    if isinstance(cause, ModuleNotFoundError) and cause.name:
        return f"the module {cause.name!r} is missing: pip install --force-reinstall {distribution}"
    return f"pip install -U {distribution}"
