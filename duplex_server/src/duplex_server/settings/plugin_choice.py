"""Which plugin is served when nobody, or somebody, says one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from duplex_sdk.discovery import OtherEnvironment, find, installed, read_environment
from duplex_sdk.errors import DuplexError
from duplex_sdk.plugin import PluginSpec

from .errors import SettingsError

__all__ = ["chosen_plugin"]

_DEFAULT = "local"
_NEVER_CHOSEN = "scripted"


def chosen_plugin(
    name: object, worker_python: object = None, *, blame: Callable[[str], str] = lambda path: ""
) -> PluginSpec:
    """The descriptor of the plugin that was named, else of the obvious one.

    Args:
        name: what somebody said; None: nobody did.
        worker_python: interpreter of the environment to look into; None: this one.
        blame: where the value at a path came from, as words to put behind a message.

    Raises:
        SettingsError: the name is none, or nobody said which of several.
        DuplexError: the plugin is not installed, broken, or not for this version.
    """
    with _blaming(blame("plugin")):
        if name is not None and (not isinstance(name, str) or not name):
            raise SettingsError("plugin: this is the name of a plugin")
        if worker_python is None:
            return find(name or _obvious(installed().names))
    with _blaming(blame("worker_python")):
        other = _other_environment(worker_python)
    with _blaming(blame("plugin")):
        return other.find(name or _obvious(other.names))


@contextmanager
def _blaming(words: str) -> Iterator[None]:
    try:
        yield
    except DuplexError as error:
        error.args = (f"{error}{words}",)
        raise


def _other_environment(python: object) -> OtherEnvironment:
    if not isinstance(python, str | Path) or not str(python):
        raise SettingsError("worker_python: this is the path of an interpreter")
    # Not resolved: where its link lies tells an interpreter which environment it belongs to.
    return read_environment(Path(python).absolute())


def _obvious(installed_names: Collection[str]) -> str:
    names = sorted(set(installed_names) - {_NEVER_CHOSEN})
    if _DEFAULT in names:
        return _DEFAULT
    if len(names) == 1:
        return names[0]
    if not names:
        raise SettingsError("no plugin is installed", hint="pip install duplex-plugin-local")
    raise SettingsError(
        f"several plugins are installed: {', '.join(names)}", hint="say which with --plugin NAME"
    )
