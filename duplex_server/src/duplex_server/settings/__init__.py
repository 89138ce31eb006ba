"""What a deployment may settle, and where each value came from."""

from __future__ import annotations

from .errors import SettingsError
from .keys import SettingKey, setting_keys
from .model import ServerSettings, ServingSettings
from .resolve import Origin, ResolvedSettings, plugin_of, resolve_settings

__all__ = [
    "Origin",
    "ResolvedSettings",
    "ServerSettings",
    "ServingSettings",
    "SettingKey",
    "SettingsError",
    "plugin_of",
    "resolve_settings",
    "setting_keys",
]
