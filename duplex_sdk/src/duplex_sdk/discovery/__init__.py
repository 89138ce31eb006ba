"""Finding plugins and hooks among the installed packages.

Entry points find models, from metadata alone; pluggy wires the rest. Names are loaded on first
use: listing plugins needs neither pluggy nor the plugin contract.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registry import (
    InstalledPlugin,
    PluginList,
    find,
    installed,
    load_plugin,
)

if TYPE_CHECKING:
    from .doctor import examine, examine_hooks
    from .entries import EntryProblem, InstalledEntry
    from .hooks import HookAnswer, HookFailure, LoadedHooks, load_hooks
    from .hookspecs import Authenticator, Observer, hookimpl, hookspec
    from .machine import examine_machine
    from .metrics_sink import Figure, MetricsSink
    from .other_environment import OtherEnvironment, OtherPlugin, read_environment
    from .report import Check, Report

__all__ = [
    "Authenticator",
    "Check",
    "EntryProblem",
    "Figure",
    "HookAnswer",
    "HookFailure",
    "InstalledEntry",
    "InstalledPlugin",
    "LoadedHooks",
    "MetricsSink",
    "Observer",
    "OtherEnvironment",
    "OtherPlugin",
    "PluginList",
    "Report",
    "examine",
    "examine_hooks",
    "examine_machine",
    "find",
    "hookimpl",
    "hookspec",
    "installed",
    "load_hooks",
    "load_plugin",
    "read_environment",
]

_LAZY = {
    "Authenticator": "hookspecs",
    "Check": "report",
    "EntryProblem": "entries",
    "Figure": "metrics_sink",
    "HookAnswer": "hooks",
    "HookFailure": "hooks",
    "InstalledEntry": "entries",
    "LoadedHooks": "hooks",
    "MetricsSink": "metrics_sink",
    "Observer": "hookspecs",
    "OtherEnvironment": "other_environment",
    "OtherPlugin": "other_environment",
    "Report": "report",
    "examine": "doctor",
    "examine_hooks": "doctor",
    "examine_machine": "machine",
    "hookimpl": "hookspecs",
    "hookspec": "hookspecs",
    "load_hooks": "hooks",
    "read_environment": "other_environment",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
