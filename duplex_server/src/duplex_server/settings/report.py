"""``duplex serve --print-config``: every value and where it came from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from pydantic import SecretStr

from .resolve import ResolvedSettings

__all__ = ["SettingLine", "setting_lines", "shown"]


@dataclasses.dataclass(frozen=True, slots=True)
class SettingLine:
    """One row of the report; secrets are shown as stars."""

    path: str
    value: str
    origin: str


def setting_lines(resolved: ResolvedSettings) -> Iterator[SettingLine]:
    """All settings but those of stages, in the order of the file's sections."""
    settings = resolved.settings
    yield _line(resolved, "plugin", settings.plugin)
    yield _line(resolved, "session_mode", settings.session_mode)
    yield _line(resolved, "chat_backend", settings.chat_backend)
    yield _line(resolved, "device", settings.device)
    yield _line(resolved, "worker_python", settings.worker_python)
    yield _line(resolved, "worker_secret", settings.worker_secret)
    yield _line(resolved, "log_level", settings.log_level)
    for name in type(settings.serving).model_fields:
        yield _line(resolved, f"serving.{name}", getattr(settings.serving, name))
    for name in resolved.session_limits.__struct_fields__:
        value = getattr(resolved.session_limits, name)
        yield _line(resolved, f"duplex_session.{name}", value)
    for name, value in resolved.plugin_options.items():
        yield _line(resolved, f"plugin_options.{name}", value)


def _line(resolved: ResolvedSettings, path: str, value: Any) -> SettingLine:
    origin = resolved.origins.get(path)
    return SettingLine(
        path, shown(value), str(origin) if origin is not None else _default(resolved, path)
    )


def _default(resolved: ResolvedSettings, path: str) -> str:
    of_plugin = path.startswith("plugin_options.") or path == "duplex_session.max_sessions"
    return f"plugin {resolved.spec.name}" if of_plugin else "default"


def shown(value: Any) -> str:
    """A value on one line; a secret as stars."""
    if isinstance(value, SecretStr):
        return "***"
    if isinstance(value, tuple | list):
        return ", ".join(shown(entry) for entry in value) or "-"
    return "-" if value is None else str(value)
