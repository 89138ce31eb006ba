"""Plugins of another Python environment: read from its interpreter, imported one package at a time.

A model's libraries may exclude the server's. Its plugin then lives in an environment of its own, of
which the server needs the light half only: that one package, and nothing else from there.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from duplex_sdk.errors import (
    DuplexError,
    PluginBrokenError,
    PluginConflictError,
    PluginIncompatibleError,
    PluginNotFoundError,
)
from duplex_sdk.stage.worker import same_major
from duplex_sdk.stage.worker.interpreter import environment_for

from .entries import PLUGINS_GROUP, InstalledEntry
from .registry import read_descriptor

if TYPE_CHECKING:
    from duplex_sdk.plugin import PluginSpec

__all__ = ["OtherEnvironment", "OtherPlugin", "read_environment"]

_TIMEOUT_S = 60.0
_NEEDS = "that environment needs duplex-sdk and the plugin, on Python 3.11 or newer"


@dataclass(frozen=True, slots=True)
class OtherPlugin:
    """A plugin of another environment.

    Attributes:
        entry: its line in that environment's entry points.
        folder: where its top-level package lies; None: it is no package.
        trouble: what is wrong with it as far as metadata tells; None: nothing.
    """

    entry: InstalledEntry
    folder: Path | None
    trouble: str | None


@dataclass(frozen=True, slots=True)
class OtherEnvironment:
    """What another interpreter's environment offers.

    Attributes:
        python: its interpreter.
        api: the plugin API its SDK speaks.
        sdk: version of its SDK.
        version: of its Python.
        plugins: sorted by name.
    """

    python: Path
    api: str
    sdk: str
    version: str
    plugins: tuple[OtherPlugin, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The plugins' names, each once."""
        return tuple(dict.fromkeys(plugin.entry.name for plugin in self.plugins))

    def find(self, name: str) -> PluginSpec:
        """The descriptor of one of its plugins, whose package can be imported from then on.

        Raises:
            PluginNotFoundError: that environment has no such plugin.
            PluginIncompatibleError: its SDK, or the plugin, speaks another plugin API.
            PluginConflictError: a package of the same name is loaded here already.
            PluginBrokenError: the descriptor cannot be imported, or is none.
        """
        self._check_api()
        plugin = next((each for each in self.plugins if each.entry.name == name), None)
        if plugin is None:
            raise PluginNotFoundError(
                f"the environment of {self.python} has no plugin called '{name}';"
                f" it has: {', '.join(self.names) or 'none'}",
                hint=f"{self.python} -m pip install duplex-plugin-{name}",
            )
        if plugin.trouble is not None or plugin.folder is None:
            reason = plugin.trouble or f"{plugin.entry.package!r} is no package with a folder"
            raise PluginBrokenError(f"plugin '{name}' of {self.python} is broken: {reason}")
        _make_importable(plugin.entry.package, plugin.folder)
        return read_descriptor(plugin.entry)

    def _check_api(self) -> None:
        from duplex_sdk.plugin import API_VERSION

        if not same_major(API_VERSION, self.api):
            raise PluginIncompatibleError(
                f"duplex-sdk {self.sdk} of {self.python} speaks plugin API {self.api};"
                f" this one speaks {API_VERSION}",
                hint=f"{self.python} -m pip install -U duplex-sdk",
            )


@functools.cache
def read_environment(python: Path) -> OtherEnvironment:
    """Ask an interpreter what its environment offers; it is run once per process.

    Raises:
        DuplexError: it does not run, or its environment has no SDK.
    """
    command = [str(python), "-P", "-m", "duplex_sdk.discovery", "--json"]
    try:
        done = subprocess.run(
            command,
            env=environment_for(python),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise DuplexError(
            f"worker_python: {python} does not run: {error.strerror}", hint=_NEEDS
        ) from error
    except subprocess.TimeoutExpired as error:
        raise DuplexError(
            f"worker_python: {python} did not answer within {_TIMEOUT_S:g} s", hint=_NEEDS
        ) from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no word of explanation"])[-1]
        raise DuplexError(f"worker_python: {python} cannot tell its plugins: {last}", hint=_NEEDS)
    try:
        return _read(python, json.loads(done.stdout))
    except (ValueError, KeyError, TypeError) as error:
        raise DuplexError(
            f"worker_python: what {python} tells of its plugins cannot be read: {error!r}",
            hint="install the same version of duplex-sdk in both environments",
        ) from error


def _read(python: Path, told: dict[str, Any]) -> OtherEnvironment:
    plugins = tuple(
        OtherPlugin(
            entry=InstalledEntry(
                each["name"],
                each["value"],
                PLUGINS_GROUP,
                each["distribution"],
                each["version"],
            ),
            folder=None if each["folder"] is None else Path(each["folder"]),
            trouble=each["trouble"],
        )
        for each in told["plugins"]
    )
    return OtherEnvironment(python, told["api"], told["sdk"], told["python"], plugins)


class _OnePackageFinder(MetaPathFinder):
    """Finds one top-level package in its folder; its modules are then found beside it."""

    def __init__(self, package: str, folder: Path) -> None:
        self.package = package
        self.folder = folder

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.package:
            return None
        return importlib.util.spec_from_file_location(
            fullname,
            self.folder / "__init__.py",
            submodule_search_locations=[str(self.folder)],
        )


def _make_importable(package: str, folder: Path) -> None:
    for finder in sys.meta_path:
        if isinstance(finder, _OnePackageFinder) and finder.package == package:
            if finder.folder == folder:
                return
            raise _loaded_already(package, finder.folder)
    loaded = sys.modules.get(package)
    if loaded is not None:
        raise _loaded_already(package, getattr(loaded, "__file__", None))
    # In front, so that a package of the same name here does not stand in for it.
    sys.meta_path.insert(0, _OnePackageFinder(package, folder))


def _loaded_already(package: str, place: object) -> PluginConflictError:
    return PluginConflictError(f"a package {package!r} is loaded already, from {place}")
