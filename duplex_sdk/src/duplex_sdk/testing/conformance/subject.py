"""The plugin under test: made once for a suite, its models loaded when a law first needs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from duplex_sdk.audio import PcmChunk, resample
from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexModelPlugin,
    DuplexSessionConfig,
    PluginSpec,
    load_duplex_plugin,
    plugin_pipeline,
)
from duplex_sdk.plugin.read_only import read_only
from duplex_sdk.stage import Json, PipelineConfig, StageInfo, StageModel, StageSession
from duplex_sdk.testing.shared_models import SharedModels, load_stage

from .breach import breach, does_not_apply, require

__all__ = ["LoadedStage", "Settings", "Subject"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What the author's suite says besides the descriptor; see ``ModelConformance``."""

    options: Mapping[str, Json]
    session: Mapping[str, Json]
    turns: tuple[PcmChunk, ...]
    answers_within_s: float
    audio_tolerance: float
    tools: tuple[Mapping[str, Json], ...]
    calling_turn: int | None
    longest_turn_s: float
    cancel_points: int
    lives: int
    soak_s: float


@dataclass(frozen=True, slots=True)
class LoadedStage:
    """One stage's model, loaded."""

    model: StageModel[Any]
    info: StageInfo


class Subject:
    """A plugin, its stages, and sessions for them.

    Attributes:
        spec: the descriptor.
        settings: of the author's suite.
    """

    def __init__(self, spec: PluginSpec, settings: Settings) -> None:
        self.spec = spec
        self.settings = settings
        self._plugin: DuplexModelPlugin | None = None
        self._stages: tuple[LoadedStage, ...] | None = None
        self._models: SharedModels | None = None
        self._unload: list[Callable[[], None]] = []

    @property
    def plugin(self) -> DuplexModelPlugin:
        """The plugin object, made with the suite's options.

        Raises:
            LawBrokenError: it cannot be made.
        """
        if self._plugin is None:
            self._plugin = self.new_plugin(self.settings.options)
        return self._plugin

    def new_plugin(self, options: Mapping[str, Json]) -> DuplexModelPlugin:
        """Another plugin object.

        Raises:
            LawBrokenError: it cannot be made.
        """
        try:
            return load_duplex_plugin(self.spec, options)
        except (Exception, SystemExit) as error:
            breach(
                f"the plugin {self.spec.name!r} cannot be made: {type(error).__name__}: {error}",
                "mend what the message names; `duplex plugins doctor` tries the same",
            )

    @property
    def capabilities(self) -> DuplexCapabilities:
        """What the plugin says it can do."""
        return self.plugin.capabilities(max_sessions=self.spec.max_sessions)

    @property
    def pipeline(self) -> PipelineConfig:
        """The plugin's stages."""
        return plugin_pipeline(self.spec, self.plugin)

    @property
    def native(self) -> bool:
        """Whether the model decides by itself when to speak."""
        return self.capabilities.supports_model_native_turn_policy

    def needs(self, ability: str) -> None:
        """Skip the law unless the plugin claims ``supports_<ability>``."""
        if ability not in self.capabilities.supported:
            does_not_apply(f"the model does not claim supports_{ability}")

    def turn(self, number: int) -> PcmChunk:
        """What the user says in a turn, at the model's rate; the turns of a suite go round."""
        turns = self.settings.turns
        return resample(turns[number % len(turns)], self.capabilities.input_sample_rate_hz)

    @property
    def stages(self) -> tuple[LoadedStage, ...]:
        """The loaded stages, in order.

        Raises:
            LawBrokenError: one of them does not load.
        """
        if self._stages is None:
            self._stages = tuple(self._load(index) for index in range(len(self.pipeline.stages)))
        return self._stages

    @property
    def models(self) -> SharedModels:
        """The models of the loaded stages, for benches and labs.

        Raises:
            LawBrokenError: one of them does not load.
        """
        if self._models is None:
            self._models = SharedModels(self.pipeline, [stage.model for stage in self.stages])
        return self._models

    def _load(self, index: int) -> LoadedStage:
        stage = self.pipeline.stages[index]
        if stage.model is None:
            does_not_apply(f"stage {stage.id!r} runs on vllm, which the kit does not start")
        try:
            model, info = load_stage(self.pipeline, index)
        except (Exception, SystemExit) as error:
            breach(
                f"stage {stage.id!r} does not load: {type(error).__name__}: {error}",
                "return a StageInfo from load(), and write step_unit() or step(); for a model that"
                " needs weights give the suite `options` that choose a small stand-in",
            )
        self._unload.append(model.unload)
        return LoadedStage(model, info)

    def unload(self) -> None:
        """Unload every model that was loaded.

        Raises:
            LawBrokenError: a model fails while it does.
        """
        calls, self._unload, self._stages, self._models = self._unload, [], None, None
        for call in calls:
            try:
                call()
            except (Exception, SystemExit) as error:
                breach(
                    f"unload() raised {type(error).__name__}: {error}",
                    "unload() is the last call of a worker; release what is there, raise nothing",
                )

    def stage_sessions(self, session_id: str, **changes: Json) -> tuple[StageSession, ...]:
        """A session as each stage is told of it.

        Args:
            session_id: names it; also decides its seed.
            changes: fields of the session object over those of the suite.

        Raises:
            LawBrokenError: the plugin refuses the session.
        """
        config = self.session_config(session_id, **changes)
        runtime = self.runtime_config(config)
        defaults = tuple(read_only(dict(stage.sampling)) for stage in self.pipeline.stages)
        sampling = self.plugin.configure_sampling_params(runtime_config=runtime, defaults=defaults)
        require(
            isinstance(sampling, tuple) and len(sampling) == len(defaults),
            f"configure_sampling_params returned {sampling!r} for {len(defaults)} stages",
            "return one mapping per stage, in stage order, as a tuple",
        )
        seed = sum(session_id.encode())
        return tuple(
            StageSession(session_id, config, runtime, sampling=each, seed=seed) for each in sampling
        )

    def session_config(self, session_id: str, **changes: Json) -> Mapping[str, Json]:
        """The public session object, as plugin and stages see it."""
        config = DuplexSessionConfig.from_realtime(
            {**self.settings.session, **changes}, capabilities=self.capabilities
        )
        shown: Mapping[str, Json] = read_only(dict(config.for_stages(session_id)))
        return shown

    def runtime_config(self, config: Mapping[str, Json]) -> Mapping[str, Json]:
        """What the plugin makes of a session object.

        Raises:
            LawBrokenError: it refuses, or what it makes is no mapping.
        """
        try:
            prepared = asyncio.run(
                self._prepare(config)  # a coroutine that may fetch
            )
        except Exception as error:
            breach(
                f"prepare_runtime_config raised {type(error).__name__}: {error}",
                "a session without any wishes must be welcome; config and model_config are"
                " read-only: copy what you want to change",
            )
        require(
            isinstance(prepared, Mapping),
            f"prepare_runtime_config returned {prepared!r}",
            "return a mapping, {} when there is nothing to remember",
        )
        made: Mapping[str, Json] = read_only(dict(prepared))
        return made

    async def _prepare(self, config: Mapping[str, Json]) -> Mapping[str, Json]:
        options = read_only(dict(self.plugin.options))
        return await self.plugin.prepare_runtime_config(config, model_config=options)
