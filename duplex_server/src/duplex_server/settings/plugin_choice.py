"""Which plugin is served when nobody, or somebody, says one."""

from __future__ import annotations

from duplex_sdk.discovery import find, installed
from duplex_sdk.plugin import PluginSpec

from .errors import SettingsError

__all__ = ["chosen_plugin"]

_DEFAULT = "local"
_NEVER_CHOSEN = "scripted"


def chosen_plugin(name: object) -> PluginSpec:
    """The descriptor of the plugin that was named, else of the obvious one.

    Raises:
        SettingsError: the name is none, or nobody said which of several.
        DuplexError: the plugin is not installed, broken, or not for this version.
    """
    if name is not None and (not isinstance(name, str) or not name):
        raise SettingsError("plugin: this is the name of a plugin")
    return find(name if isinstance(name, str) else _obvious())


def _obvious() -> str:
    names = sorted(set(installed().names) - {_NEVER_CHOSEN})
    if _DEFAULT in names:
        return _DEFAULT
    if len(names) == 1:
        return names[0]
    if not names:
        raise SettingsError("no plugin is installed", hint="pip install duplex-plugin-local")
    raise SettingsError(
        f"several plugins are installed: {', '.join(names)}", hint="say which with --plugin NAME"
    )
