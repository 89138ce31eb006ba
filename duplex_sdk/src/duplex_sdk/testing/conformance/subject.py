"""The plugin under test: made once for a suite, its models loaded when a law first needs them."""

from __future__ import annotations

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
from duplex_sdk.testing.awaited import awaited
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

    def __post_init__(self) -> None:
        """Refuse figures with which a law would look at nothing.

        Raises:
            ValueError: one of them is such a figure.
        """
        if not self.turns:
            raise ValueError("the suite's `turns` are empty: the laws need something to say")
        for name in ("answers_within_s", "longest_turn_s", "cancel_points", "lives", "soak_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"the suite's {name!r} must be above zero")


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
                "mend what the message names; a server that is to serve it fails of the same",
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

    @property
    def usual_session(self) -> Mapping[str, Json]:
        """What the clients of the laws ask for: the suite's wishes.

        A model that decides by itself when to speak is let do so, as most clients do.
        """
        unasked: Mapping[str, Json] = {"auto_response": True} if self.native else {}
        return {**unasked, **self.settings.session}

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
        return self.told_to_stages(session_id, config, runtime)

    def told_to_stages(
        self, session_id: str, config: Mapping[str, Json], runtime: Mapping[str, Json]
    ) -> tuple[StageSession, ...]:
        """What each stage is told of a session with this config and runtime config.

        Raises:
            LawBrokenError: the plugin makes no sampling parameters of it.
        """
        seed = sum(session_id.encode())
        return tuple(
            StageSession(session_id, config, runtime, sampling=each, seed=seed)
            for each in self.sampling(runtime)
        )

    def sampling(self, runtime: Mapping[str, Json]) -> tuple[Mapping[str, Json], ...]:
        """The sampling parameters of a session, by stage.

        Raises:
            LawBrokenError: they are not one mapping per stage.
        """
        advice = (
            "return one mapping per stage, in stage order, as a tuple; runtime_config and defaults"
            " may lack any key, and are read-only"
        )
        defaults = tuple(read_only(dict(stage.sampling)) for stage in self.pipeline.stages)
        configure = self.plugin.configure_sampling_params
        try:
            sampling = configure(runtime_config=runtime, defaults=defaults)
        except Exception as error:
            breach(f"configure_sampling_params raised {type(error).__name__}: {error}", advice)
        require(
            isinstance(sampling, tuple)
            and len(sampling) == len(defaults)
            and all(isinstance(each, Mapping) for each in sampling),
            f"configure_sampling_params returned {sampling!r} for {len(defaults)} stages",
            advice,
        )
        return sampling

    def session_config(self, session_id: str, **changes: Json) -> Mapping[str, Json]:
        """The public session object, as plugin and stages see it."""
        config = DuplexSessionConfig.from_realtime(
            {**self.settings.session, **changes}, capabilities=self.capabilities
        )
        shown: Mapping[str, Json] = read_only(dict(config.for_stages(session_id)))
        return shown

    def runtime_config(self, config: Mapping[str, Json]) -> Mapping[str, Json]:
        """What the plugin makes of a session object, as hooks and stages are given it.

        Raises:
            LawBrokenError: it refuses, or what it makes is no mapping.
        """
        made: Mapping[str, Json] = read_only(dict(self.prepared(config)))
        return made

    def prepared(self, config: Mapping[str, Json], advice: str = "") -> Mapping[str, Json]:
        """The mapping itself that the plugin makes of a session object.

        Args:
            config: the session object.
            advice: what to do when it is refused; as a rule every session must be welcome.

        Raises:
            LawBrokenError: it refuses, or what it makes is no mapping.
        """
        options = read_only(dict(self.plugin.options))
        prepare = self.plugin.prepare_runtime_config
        try:
            prepared = awaited(lambda: prepare(config, model_config=options))
        except Exception as error:
            breach(
                f"prepare_runtime_config raised {type(error).__name__}: {error}",
                advice
                or "it is an `async def`, and a session without any wishes must be welcome; config"
                " and model_config are read-only: copy what you want to change",
            )
        require(
            isinstance(prepared, Mapping),
            f"prepare_runtime_config returned {prepared!r}",
            "return a mapping, {} when there is nothing to remember",
        )
        return prepared
