"""A plugin's model, served without sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from duplex_sdk.discovery import find, load_plugin
from duplex_sdk.plugin import plugin_pipeline

from duplex_server.engine.omni_engine_base import EngineOptions
from duplex_server.stages import Deployment

from .async_omni import AsyncOmni
from .omni import Omni

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexCapabilities, DuplexModelPlugin, PluginSpec
    from duplex_sdk.stage import Json, PipelineConfig

    from duplex_server.stages import Progress

__all__ = ["TurnModel"]


@dataclass(frozen=True, slots=True)
class TurnModel:
    """What an engine for requests without a session needs of a plugin.

    Attributes:
        spec: the descriptor.
        plugin: the light half, loaded.
        capabilities: of it.
        pipeline: its stages, with the deployment's changes.
        engine_options: how they are run.
    """

    spec: PluginSpec
    plugin: DuplexModelPlugin
    capabilities: DuplexCapabilities
    pipeline: PipelineConfig
    engine_options: EngineOptions

    @classmethod
    def load(
        cls,
        plugin: PluginSpec | str,
        options: Mapping[str, Json] | None = None,
        *,
        deployment: Deployment | None = None,
        stage_call_timeout_s: float = 10.0,
    ) -> Self:
        """Load a plugin's light half; no model is loaded before an engine starts.

        Raises:
            DuplexError: the plugin cannot be found or loaded, or an option is wrong.
            StageSettingError: the deployment asks of a stage what cannot be.
        """
        spec = find(plugin) if isinstance(plugin, str) else plugin
        loaded = load_plugin(spec, options)
        deployment = deployment or Deployment()
        capabilities = loaded.capabilities(max_sessions=spec.max_sessions)
        return cls(
            spec,
            loaded,
            capabilities,
            deployment.apply(plugin_pipeline(spec, loaded)),
            EngineOptions(
                output_rate=capabilities.output_sample_rate_hz,
                stage_call_timeout_s=stage_call_timeout_s,
                plugin=spec.name,
                deployment=deployment,
            ),
        )

    def async_omni(self, *, progress: Progress | None = None) -> AsyncOmni:
        """An engine for asyncio callers, not started."""
        return AsyncOmni(pipeline=self.pipeline, options=self.engine_options, progress=progress)

    def omni(self, *, progress: Progress | None = None) -> Omni:
        """An engine for other callers, not started."""
        return Omni(pipeline=self.pipeline, options=self.engine_options, progress=progress)
