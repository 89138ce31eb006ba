"""Flag over environment over file over the plugin's defaults: one value, one origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duplex_sdk.plugin import (
    DuplexSessionRuntimeConfig,
    PluginSpec,
    PluginSpecError,
    resolve_options,
)
from pydantic import ValidationError

from duplex_server.stages import Deployment

from .errors import SettingsError
from .file import read_settings_file
from .keys import SettingKey, setting_keys
from .model import ServerSettings
from .plugin_choice import chosen_plugin
from .session_limits import read_session_limits
from .words import refusal

__all__ = ["Origin", "ResolvedSettings", "plugin_of", "resolve_settings"]

DEFAULT_FILE = Path("duplex.yaml")
Leaf = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from.

    Attributes:
        words: as a person would say it: a flag, a variable, a file.
        line: in the file, from 1; None: it came from elsewhere.
    """

    words: str
    line: int | None = None

    def __str__(self) -> str:
        """Both, on one line."""
        return self.words if self.line is None else f"{self.words}, line {self.line}"


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """The settings a server runs by.

    Attributes:
        settings: checked; ``plugin`` is never None.
        spec: descriptor of the plugin.
        plugin_options: every option the plugin has, with its value.
        session_limits: the ``duplex_session`` section, whole.
        origins: of every value that is not a plain default, by dotted path.
    """

    settings: ServerSettings
    spec: PluginSpec
    plugin_options: dict[str, Any]
    session_limits: DuplexSessionRuntimeConfig
    origins: dict[str, Origin]

    @property
    def deployment(self) -> Deployment:
        """What the settings change about the plugin's stages."""
        secret = self.settings.worker_secret
        return Deployment(
            worker_secret=None if secret is None else secret.get_secret_value(),
            stages={name: stage.changes for name, stage in self.settings.stages.items()},
            device=self.settings.device,
            worker_python=self.settings.worker_python,
        )

    def origin_of(self, path: str) -> Origin | None:
        """Where the value at a path came from, else a part of it, else the section around it."""
        return _nearest(self.origins, path)

    def blame(self, path: str) -> str:
        """Where the value at a path came from, as words to put behind a message; may be empty."""
        return _from(self.origins, path)


def resolve_settings(
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    config: Path | None = None,
    given_options: Mapping[str, Any] | None = None,
    given_stages: Mapping[tuple[str, ...], Any] | None = None,
) -> ResolvedSettings:
    """Bring the sources together.

    Args:
        flags: values by option name; None and empty lists were not given.
        environment: of the process.
        config: the settings file; None takes ``./duplex.yaml`` when there is one.
        given_options: plugin options given as key and value.
        given_stages: settings of stages by their path, such as ``("talker", "backend")``.

    Raises:
        SettingsError: a setting that cannot be, with its path.
        DuplexError: the plugin is not there, broken, or not for this version.
    """
    tree, origins = _read_file(config)
    _lay_over(tree, origins, setting_keys(), flags, environment)
    for path, value in (given_stages or {}).items():
        _set(tree, origins, ("stages", *path), value, "--stage")

    def blame(path: str) -> str:
        return _from(origins, path)

    spec = chosen_plugin(tree.get("plugin"), tree.get("worker_python"), blame=blame)
    tree["plugin"] = spec.name
    option_keys = [key for key in setting_keys(spec.options) if key.path[0] == "plugin_options"]
    _lay_over(tree, origins, option_keys, flags, environment)
    for name, value in (given_options or {}).items():
        _set(tree, origins, ("plugin_options", name), value, "--plugin-option")
    try:
        settings = ServerSettings.model_validate(tree)
    except ValidationError as error:
        raise refusal(error, blame) from error
    _refuse_what_has_no_effect(settings)
    return ResolvedSettings(
        settings=settings,
        spec=spec,
        plugin_options=_plugin_options(spec, settings.plugin_options, origins),
        session_limits=read_session_limits(
            settings.duplex_session,
            max_sessions=spec.max_sessions,
            blame=blame,
        ),
        origins=origins,
    )


def plugin_of(
    flag: str | None,
    environment: Mapping[str, str],
    *,
    config: str | None = None,
    worker_python: str | None = None,
) -> PluginSpec:
    """The descriptor of the plugin that would be served, before anything else is known.

    ``flag`` and ``worker_python`` are what the command line says of plugin and interpreter.

    Raises:
        DuplexError: nobody can say, or it cannot be served.
    """
    tree, _ = _read_file(Path(config) if config is not None else None)
    return chosen_plugin(
        flag or environment.get("DUPLEX_PLUGIN") or tree.get("plugin"),
        worker_python or environment.get("DUPLEX_WORKER_PYTHON") or tree.get("worker_python"),
    )


def _plugin_options(
    spec: PluginSpec, given: Mapping[str, Any], origins: Mapping[str, Origin]
) -> dict[str, Any]:
    try:
        return dict(resolve_options(spec, given))
    except PluginSpecError as error:
        name = next((name for name in given if repr(name) in str(error)), "")
        blamed = _from(origins, f"plugin_options.{name}")
        raise SettingsError(f"plugin_options.{name}: {error}{blamed}", hint=error.hint) from error


def _read_file(config: Path | None) -> tuple[dict[str, Any], dict[str, Origin]]:
    if config is None:
        if not DEFAULT_FILE.is_file():
            return {}, {}
        config = DEFAULT_FILE
    told = read_settings_file(config)
    origins = {path: Origin(str(config), line) for path, line in told.lines.items()}
    return told.content, origins


def _lay_over(
    tree: dict[str, Any],
    origins: dict[str, Origin],
    keys: Sequence[SettingKey],
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
) -> None:
    for key in keys:
        found = _given(key, flags, environment)
        if found is None:
            continue
        _set(tree, origins, key.path, *found)


def _set(
    tree: dict[str, Any], origins: dict[str, Origin], path: Leaf, value: Any, words: str
) -> None:
    section = tree
    for depth, name in enumerate(path[:-1], 1):
        section = section.setdefault(name, {})
        if not isinstance(section, dict):
            here = ".".join(path[:depth])
            blamed = _from(origins, here)
            raise SettingsError(f"{here}: this is a section of names and values{blamed}")
    section[path[-1]] = value
    here = ".".join(path)
    for replaced in [known for known in origins if known.startswith(f"{here}.")]:
        del origins[replaced]
    origins[here] = Origin(words)


def _given(
    key: SettingKey, flags: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[Any, str] | None:
    flag = flags.get(key.option)
    if flag is not None and flag != [] and flag != ():
        return (list(flag) if key.repeated else flag), key.flag
    for variable in key.variables:
        text = environment.get(variable)
        if text:
            return (_entries(text) if key.repeated else text), f"${variable}"
    return None


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _refuse_what_has_no_effect(settings: ServerSettings) -> None:
    # A setting must not look active when nothing goes by it.
    if settings.session_mode == "turn" and settings.chat_backend == "session":
        raise SettingsError(
            "chat_backend: a server in turn mode has no sessions",
            hint="leave it out, or say engine",
        )


def _from(origins: Mapping[str, Origin], path: str) -> str:
    origin = _nearest(origins, path)
    return "" if origin is None else f" (from {origin})"


def _nearest(origins: Mapping[str, Origin], path: str) -> Origin | None:
    if path in origins:
        return origins[path]
    parts = (origins[known] for known in origins if known.startswith(f"{path}."))
    return next(parts, None) or _around(origins, path)


def _around(origins: Mapping[str, Origin], path: str) -> Origin | None:
    section = path.rpartition(".")[0]
    while section and section not in origins:
        section = section.rpartition(".")[0]
    return origins[section] if section else None
