"""A small plugin that keeps every law; the wrong ones differ from it in one thing each."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import (
    AppendRequest,
    DuplexAppendPlan,
    DuplexCapabilities,
    DuplexModelPlugin,
    DuplexRuntimeConfigError,
    InputProcessor,
    PluginOption,
    PluginSpec,
)
from duplex_sdk.stage import (
    Json,
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageModel,
    StageOutput,
    StagePrompt,
    StageSession,
    StageUnit,
    ToolCall,
    sentences,
)
from msgspec import structs

RATE = 24_000
WORD_MS = 100


@dataclass
class Talk:
    """One session: its seed, and the words it still has to say."""

    seed: int
    words: deque[str] = field(default_factory=deque)
    heard_ms: float = 0.0
    called: bool = False
    asked: dict[str, Any] = field(default_factory=dict)


Unit = StageUnit[Talk]


class RightModel(StageModel[Talk]):
    """Answers a turn with four words in real time, each a noise of its own."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> Talk:
        return Talk(session.seed)

    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        state.words.clear()
        state.heard_ms = 0.0

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        talk, prompt = unit.state, unit.prompt
        if prompt.kind == "discard":
            talk.heard_ms = 0.0
        if prompt.audio is not None:
            talk.heard_ms += prompt.audio.duration_ms
        if prompt.final or prompt.kind == "conversation":
            length, talk.heard_ms = f"{talk.heard_ms:.0f} ms", 0.0
            yield unit.output(user_text=length, user_text_final=True)
            if prompt.respond:
                talk.words.extend(self.reply(talk, prompt, length))
        if talk.words:
            yield self.say(unit, talk.words.popleft())

    def reply(self, talk: Talk, prompt: StagePrompt, length: str) -> list[str]:
        return ["That ", "took ", length, ", indeed."]

    def say(self, unit: Unit, word: str) -> StageOutput:
        left = bool(unit.state.words)
        return unit.output(
            text=word,
            audio=sound(word),
            marks=((len(word), WORD_MS),),
            end_of_turn=not left,
            again_ms=WORD_MS if left else None,
        )


class RightNativeModel(RightModel):
    """Takes a unit of input for each unit of output."""

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        talk, prompt = unit.state, unit.prompt
        if prompt.audio is not None and is_loud(prompt.audio):
            talk.heard_ms += prompt.audio.duration_ms
        elif talk.heard_ms:
            talk.words.extend(self.reply(talk, prompt, f"{talk.heard_ms:.0f} ms"))
            talk.heard_ms = 0.0
        if talk.words:
            yield replace_again(self.say(unit, talk.words.popleft()))
        else:
            yield unit.output(listen=True)


def is_loud(audio: PcmChunk) -> bool:
    """Whether somebody speaks: a model of this kind has no other detector."""
    return audio.count > 0 and bool(np.abs(audio.numpy()).max() > 0.02)


def replace_again(output: StageOutput) -> StageOutput:
    """Without a tick: the next unit of input brings the answer on."""
    return structs.replace(output, again_ms=None)


@cache
def sound(word: str) -> PcmChunk:
    source = np.random.default_rng(list(word.encode()))
    return PcmChunk.of(source.uniform(-0.2, 0.2, RATE * WORD_MS // 1000), RATE)


class RightCallingModel(RightModel):
    """Looks something up before it answers: the first turn of a session that has a tool."""

    def open(self, session: StageSession) -> Talk:
        return Talk(session.seed, called=not session.config.get("tools"))

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        results = unit.prompt.data.get("results", ())
        if unit.prompt.final and self.calls(unit.state):
            unit.state.called = True
            return (unit.output(tool_call=self.call(unit.state), end_of_turn=True),)
        if results:
            took = {"took": [each["call_id"] for each in results]}
            unit.state.words.extend(self.of_results(results))
            return (unit.output(data=took), *super().step_unit(unit, now))
        return super().step_unit(unit, now)

    def calls(self, talk: Talk) -> bool:
        return not talk.called

    def call(self, talk: Talk) -> ToolCall:
        return ToolCall("look", '{"place": "here"}', f"call_{talk.seed}")

    def of_results(self, results: Iterable[Mapping[str, Json]]) -> list[str]:
        return [f"It says {each['output']}. " for each in results]


class RightBesideModel(RightModel):
    """Keeps what is still to be said by the request that asked."""

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        talk, prompt = unit.state, unit.prompt
        if prompt.final or prompt.kind == "conversation":
            talk.asked[unit.request_id] = (unit, deque(self.reply(talk, prompt, "a while")))
        for first, words in tuple(talk.asked.values()):
            word = words.popleft()
            yield first.output(
                text=word, audio=sound(word), marks=((len(word), WORD_MS),), end_of_turn=not words
            )
            if not words:
                del talk.asked[first.request_id]
        if talk.asked:
            yield unit.output(again_ms=WORD_MS)

    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        state.asked.clear()


class RightVoiceModel(RightModel):
    """The second of two stages: it speaks the words that the first one wrote."""

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        unit.state.words.extend((unit.prompt.text or "").split())
        if unit.state.words:
            yield self.say(unit, unit.state.words.popleft())


class RightWritingModel(RightModel):
    """The first of two stages: it writes its answer at once."""

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        for output in super().step_unit(unit, now):
            if output.audio is None:
                yield output
                continue
            words = [output.text or "", *unit.state.words]
            unit.state.words.clear()
            yield unit.output(text=" ".join(words), end_of_turn=True)


class Right(DuplexModelPlugin):
    """Its option says which model stands behind it."""

    early_input = False
    quick = False

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.turn_based(
            supports_multi_session=True, supports_text_only_turn=True
        )

    def pipeline(self) -> PipelineConfig:
        model = f"wrong_models:{self.options['model']}"
        return PipelineConfig((StageConfig("talk", model, quick=self.quick),))


class RightEarly(Right):
    early_input = True


class RightQuick(Right):
    quick = True


class RightNative(Right):
    """Decides by itself when to speak: as soon as the user has stopped."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.native(supports_multi_session=True, chunk_period_ms=WORD_MS)


class RightSeeing(Right):
    """Takes camera frames."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        known = super().capabilities(max_sessions=max_sessions)
        return replace(known, optional_input_modalities=("video",))


class RightReading(Right):
    """Takes still pictures among its messages."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return replace(super().capabilities(max_sessions=max_sessions), supports_image_input=True)


class RightBeside(Right):
    """Answers questions outside the conversation, beside what it says in it."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        known = super().capabilities(max_sessions=max_sessions)
        return replace(known, supports_out_of_band_responses=True)


class RightCalling(Right):
    """Calls functions; results wait in the runtime config until the model took them."""

    private_runtime_config_keys = frozenset({"results"})

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return replace(super().capabilities(max_sessions=max_sessions), supports_tools=True)

    def runtime_config_for_function_output(
        self, config: Mapping[str, Json], current: Mapping[str, Json], item: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        return {**current, "results": [*current.get("results", ()), dict(item)]}

    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        plan, results = super().plan_append(request), request.session.runtime.get("results")
        if not results:
            return plan
        return DuplexAppendPlan(structs.replace(plan.prompt, data={"results": list(results)}))

    def runtime_config_after_model_output(
        self, current: Mapping[str, Json], data: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        if "took" not in data:
            return None
        left = [each for each in current.get("results", ()) if each["call_id"] not in data["took"]]
        return {**current, "results": left}


class RightVoiced(Right):
    """Has voices of its own, for whatever its clients call them; none of its hooks is at once."""

    voices = ("anna", "otto")
    taken: Mapping[str, str] = {"alloy": "anna", "marin": "otto"}

    def voice_in_use(self, config: Mapping[str, Json]) -> str | None:
        named = config.get("voice") or "anna"
        return self.taken.get(named, named)

    async def prepare_runtime_config(
        self, config: Mapping[str, Json], *, model_config: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        voice = await asyncio.to_thread(self.voice_in_use, config)
        if voice not in self.voices:
            raise DuplexRuntimeConfigError("invalid_voice", f"no voice {voice!r}")
        return {"voice": voice}

    async def prepare_append_plan(self, request: AppendRequest) -> DuplexAppendPlan:
        return await asyncio.to_thread(self.plan_append, request)

    def configure_sampling_params(
        self,
        *,
        runtime_config: Mapping[str, Json],
        defaults: tuple[Mapping[str, Json], ...],
    ) -> tuple[Mapping[str, Json], ...]:
        return tuple({**each, "voice": runtime_config["voice"]} for each in defaults)

    def create_input_processor(self, config: Mapping[str, Json]) -> InputProcessor | None:
        return RightFilter()


class RightSettled(Right):
    """Takes no new instructions once it has begun, and says so in its way."""

    async def prepare_runtime_config(
        self, config: Mapping[str, Json], *, model_config: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        return {"role": config.get("instructions")}

    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        if started and config.get("instructions") != current["role"]:
            raise DuplexRuntimeConfigError("instructions_update_unsupported", "the role is settled")
        return {"role": config.get("instructions")}


class RightFilter(InputProcessor):
    """Makes everything a little softer."""

    def process(self, audio: PcmChunk) -> PcmChunk:
        return PcmChunk.of(audio.numpy() * 0.9, audio.rate)

    def played(self, audio: PcmChunk, start_ms: float) -> None:
        pass


class RightAnswering(Right):
    """Also serves requests that have no session."""

    def pipeline(self) -> PipelineConfig:
        return replace(super().pipeline(), turn_requests=True, spoken_requests=True)


class RightCascade(Right):
    """Two stages: one writes, one speaks."""

    stage_input = staticmethod(sentences)

    def pipeline(self) -> PipelineConfig:
        voice = f"wrong_models:{self.options['model']}"
        return PipelineConfig(
            (
                StageConfig("write", "right_plugin:RightWritingModel"),
                StageConfig("speak", voice),
            ),
            stage_input=self.stage_input,
        )


spec = PluginSpec(
    name="right",
    api="1.0",
    factory="right_plugin:Right",
    max_sessions=8,
    options=(PluginOption("model", default="RightModel"),),
)


def with_model(model: str, factory: str = "right_plugin:Right") -> PluginSpec:
    """The right plugin in front of another model."""
    return replace(spec, factory=factory, options=(PluginOption("model", default=model),))


def behind(factory: str, **changes: Json) -> PluginSpec:
    """Another plugin in front of the right model."""
    fields: Mapping[str, Json] = {"factory": factory, **changes}
    return replace(spec, **fields)
