"""The stages of a deployment: the plugin's, with what the settings change about them."""

from __future__ import annotations

from duplex_sdk.discovery import load_plugin
from duplex_sdk.plugin import plugin_pipeline
from duplex_sdk.stage import StageConfig

from duplex_server.stages import StageSettingError

from .errors import SettingsError
from .resolve import ResolvedSettings

__all__ = ["deployed_stages"]


def deployed_stages(resolved: ResolvedSettings) -> tuple[StageConfig, ...]:
    """Every stage as it will be run; loads the plugin's light half, no model.

    Raises:
        SettingsError: a stage can't be run like that.
        DuplexError: the plugin can't be loaded.
    """
    spec = resolved.spec
    pipeline = plugin_pipeline(spec, load_plugin(spec, resolved.plugin_options))
    try:
        return resolved.deployment.apply(pipeline).stages
    except StageSettingError as error:
        raise SettingsError(f"{error}{resolved.blame(error.path)}", hint=error.hint) from error
