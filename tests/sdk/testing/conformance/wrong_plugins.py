"""Plugin objects that break one law each, in front of a model that keeps them all."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import (
    AppendPiece,
    AppendRequest,
    DuplexAppendPlan,
    DuplexCapabilities,
    DuplexDataPlane,
    DuplexModelSessionState,
    InputProcessor,
    ModelResult,
    OutputContext,
    PcmReservation,
    UnitBuffer,
)
from duplex_sdk.stage import (
    Json,
    PipelineConfig,
    StageInputContext,
    StageOutput,
    StagePrompt,
    pass_on,
)
from msgspec.structs import replace
from right_plugin import (
    Right,
    RightCalling,
    RightCascade,
    RightFilter,
    RightNative,
    RightSeeing,
    RightVoiced,
)


class CannotBeMade(Right):
    def __init__(self, options: Mapping[str, Json]) -> None:
        raise FileNotFoundError("weights.bin")


class NeedsAnOption(Right):
    def __init__(self, options: Mapping[str, Json]) -> None:
        super().__init__(options)
        if "weights" not in options:
            raise ValueError("which weights?")


class OtherCapabilitiesEachTime(Right):
    count = itertools.count()

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.turn_based(
            supports_multi_session=True, target_barge_in_latency_ms=next(self.count)
        )


class PrefersWhatIsNot(Right):
    defaults: Mapping[str, Json] = {"overlap_short_ack": 400}

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        known = super().capabilities(max_sessions=max_sessions)
        return dataclasses.replace(known, session_defaults=self.defaults)


class PrefersWords(PrefersWhatIsNot):
    defaults: Mapping[str, Json] = {"turn_detection": {"silence_duration_ms": "soon"}}


class OtherPipelineEachTime(Right):
    def pipeline(self) -> PipelineConfig:
        return PipelineConfig(super().pipeline().stages, stage_input=lambda output, context: ())


class MissingModel(Right):
    def pipeline(self) -> PipelineConfig:
        self.options = {"model": "NoSuchModel"}
        return super().pipeline()


class MutatesConfig(Right):
    async def prepare_runtime_config(
        self, config: Mapping[str, Json], *, model_config: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        config["voice"] = "mine"  # type: ignore[index]
        return {}


class MutatesTheRuntimeConfig(Right):
    def runtime_config_for_function_output(
        self, config: Mapping[str, Json], current: Mapping[str, Json], item: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        current["results"] = [item]  # type: ignore[index]
        return current


class ForgetsTheRuntimeConfig(Right):
    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        return None  # type: ignore[return-value]


class TrustsItsClients(Right):
    def validate_client_extra_body(self, extra_body: Mapping[str, Json] | None) -> None:
        if extra_body:
            float(extra_body["temperature"])


class BlocksTheLoop(Right):
    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        time.sleep(0.02)
        return super().plan_append(request)


class MutatesTheConversation(Right):
    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        request.session.runtime["turns"] = 1  # type: ignore[index]
        return super().plan_append(request)


class DropsTheEnd(Right):
    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        plan = super().plan_append(request)
        return DuplexAppendPlan(replace(plan.prompt, final=False))


class CountsItsPlans(Right):
    count = itertools.count()

    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        plan = super().plan_append(request)
        return DuplexAppendPlan(replace(plan.prompt, data={"plan": next(self.count)}))


class DropsPictures(RightSeeing):
    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        plan = super().plan_append(request)
        return DuplexAppendPlan(replace(plan.prompt, images=()))


class ForgetsToolResults(RightCalling):
    """Keeps the newest result only."""

    def runtime_config_for_function_output(
        self, config: Mapping[str, Json], current: Mapping[str, Json], item: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        return {**current, "results": [dict(item)]}


class PlansTensors(Right):
    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        plan = super().plan_append(request)
        audio = plan.prompt.audio
        mel = None if audio is None else np.abs(np.fft.rfft(audio.numpy()))
        return DuplexAppendPlan(replace(plan.prompt, data={"mel": mel}))


class DecidesByCounter(RightCascade):
    count = itertools.count()

    def project_intermediate_output(self, output: StageOutput, context: OutputContext) -> bool:
        return next(self.count) % 2 == 0


REMEMBERED: dict[str, Any] = {"text": ""}


def _remembering(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    """What one output brought goes on with the next one: of whichever session that is."""
    text, REMEMBERED["text"] = REMEMBERED["text"], output.text or REMEMBERED["text"]
    return pass_on(replace(output, text=text or "Well."), context)


class RemembersInStageInput(RightCascade):
    stage_input = staticmethod(_remembering)


class _ObjectPlane(DuplexDataPlane):
    def project(
        self, output: StageOutput, *, state: DuplexModelSessionState, context: object
    ) -> Iterable[ModelResult]:
        for result in super().project(output, state=state, context=context):
            yield replace(result, metadata={"context": context})


class TellsObjects(Right):
    data_plane = _ObjectPlane()


class _TwicePlane(DuplexDataPlane):
    def project(
        self, output: StageOutput, *, state: DuplexModelSessionState, context: object
    ) -> Iterable[ModelResult]:
        return 2 * tuple(super().project(output, state=state, context=context))


class ProjectsTwice(Right):
    data_plane = _TwicePlane()


class _RawPlane(DuplexDataPlane):
    def project(
        self, output: StageOutput, *, state: DuplexModelSessionState, context: object
    ) -> Iterable[Any]:
        return ({"audio": output.audio},)


class ProjectsRawOutputs(Right):
    data_plane = _RawPlane()


class _PlaneWithMemory(DuplexDataPlane):
    """It says each text once it knows the next one: of whichever session that is."""

    waiting = ""

    def project(
        self, output: StageOutput, *, state: DuplexModelSessionState, context: object
    ) -> Iterable[ModelResult]:
        text, self.waiting = self.waiting, output.text or ""
        if output.end_of_turn:
            text, self.waiting = text + self.waiting, ""
        return (ModelResult(text=text, audio=output.audio, end_of_turn=output.end_of_turn),)


class RemembersInTheDataPlane(Right):
    data_plane = _PlaneWithMemory()


class _StrictPlane(DuplexDataPlane):
    def close_stream(self, request_id: str, *, state: DuplexModelSessionState) -> None:
        del vars(state)[request_id]

    def begin_request(self, request_id: str, *, state: DuplexModelSessionState) -> None:
        vars(state)[request_id] = True


class ClosesStreamsOnce(Right):
    data_plane = _StrictPlane()


class _SilentPlane(DuplexDataPlane):
    def project(
        self, output: StageOutput, *, state: DuplexModelSessionState, context: object
    ) -> Iterable[ModelResult]:
        for result in super().project(output, state=state, context=context):
            yield replace(result, audio=None)


class TellsNoSound(Right):
    data_plane = _SilentPlane()


class _StutteringPlane(DuplexDataPlane):
    def project(
        self, output: StageOutput, *, state: DuplexModelSessionState, context: object
    ) -> Iterable[ModelResult]:
        yield from super().project(output, state=state, context=context)
        yield ModelResult(text=output.text)


class _MutePlane(DuplexDataPlane):
    def project(
        self, output: StageOutput, *, state: DuplexModelSessionState, context: object
    ) -> Iterable[ModelResult]:
        return (ModelResult(listen=True),)


class TellsNobody(RightNative):
    data_plane = _MutePlane()


class TellsWordsTwice(Right):
    data_plane = _StutteringPlane()


class DropsTheSound(Right):
    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        plan = super().plan_append(request)
        return DuplexAppendPlan(replace(plan.prompt, audio=None))


class BlocksWhileItWaits(Right):
    async def prepare_append_plan(self, request: AppendRequest) -> DuplexAppendPlan:
        time.sleep(0.02)  # noqa: ASYNC251 -- that is what is wrong
        return self.plan_append(request)


class ForgetsAtAnUpdate(RightVoiced):
    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        return {}


class ImportsWhenAsked(Right):
    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        import hypothesis

        assert hypothesis
        return super().capabilities(max_sessions=max_sessions)


class PassesPaths(Right):
    def pipeline(self) -> PipelineConfig:
        pipeline = super().pipeline()
        (stage,) = pipeline.stages
        made_with = dataclasses.replace(stage, options={"weights": Path("weights.bin")})
        return dataclasses.replace(pipeline, stages=(made_with,))


class KnowsTwoNames(RightVoiced):
    def voice_in_use(self, config: Mapping[str, Json]) -> str | None:
        return self.taken[config["voice"]]


class NamesAFile(RightVoiced):
    def voice_in_use(self, config: Mapping[str, Json]) -> str | None:
        return Path("anna.pt")  # type: ignore[return-value]


class NamesItsVoiceTwice(RightVoiced):
    def voice_in_use(self, config: Mapping[str, Json]) -> str | None:
        return f"my {super().voice_in_use(config)}"


class NamesAVoiceItHasNot(RightVoiced):
    taken: ClassVar[Mapping[str, str]] = {"alloy": "bertha", "marin": "bertha"}


class HasOnlyAnna(RightVoiced):
    voices = ("anna",)


class CountsItsSampling(Right):
    count = itertools.count()

    def configure_sampling_params(
        self,
        *,
        runtime_config: Mapping[str, Json],
        defaults: tuple[Mapping[str, Json], ...],
    ) -> tuple[Mapping[str, Json], ...]:
        return tuple({**each, "seed": next(self.count)} for each in defaults)


class NeedsATemperature(Right):
    def configure_sampling_params(
        self,
        *,
        runtime_config: Mapping[str, Json],
        defaults: tuple[Mapping[str, Json], ...],
    ) -> tuple[Mapping[str, Json], ...]:
        return tuple({"temperature": runtime_config["temperature"]} for _ in defaults)


class SharesItsRuntimeConfig(Right):
    current: ClassVar[dict[str, Json]] = {}

    async def prepare_runtime_config(
        self, config: Mapping[str, Json], *, model_config: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        self.current["prompt"] = config.get("instructions")
        return self.current


class _WholeFrames(RightFilter):
    """Gives back what fills a frame of 10 ms, and keeps the rest for later."""

    def process(self, audio: PcmChunk) -> PcmChunk:
        whole = audio.count // 160 * 160
        return PcmChunk(audio.data[: whole * 4], audio.rate)


class FiltersWholeFrames(Right):
    def create_input_processor(self, config: Mapping[str, Json]) -> InputProcessor | None:
        return _WholeFrames()


class SharesItsFilter(Right):
    filter = RightFilter()

    def create_input_processor(self, config: Mapping[str, Json]) -> InputProcessor | None:
        return self.filter


class SharesItsBuffer(Right):
    state = DuplexModelSessionState(UnitBuffer(1600, 16_000))

    def create_session_state(self) -> DuplexModelSessionState:
        return self.state


class _LosingBuffer(UnitBuffer):
    """Each append loses its last sample."""

    def prepare_append(
        self, piece: AppendPiece, *, operation_id: str, allow_emit: bool
    ) -> PcmReservation | None:
        if piece.audio is not None:
            piece = replace(piece, audio=replace(piece.audio, data=piece.audio.data[:-4]))
        return super().prepare_append(piece, operation_id=operation_id, allow_emit=allow_emit)


class _EagerBuffer(UnitBuffer):
    def prepare_append(
        self, piece: AppendPiece, *, operation_id: str, allow_emit: bool
    ) -> PcmReservation | None:
        return super().prepare_append(piece, operation_id=operation_id, allow_emit=True)


class _UncountedBuffer(UnitBuffer):
    @property
    def pending_byte_count(self) -> int:
        return 0


class _OneWayBuffer(UnitBuffer):
    """A unit that goes back goes to the end."""

    def prepare_append(
        self, piece: AppendPiece, *, operation_id: str, allow_emit: bool
    ) -> PcmReservation | None:
        taken = super().prepare_append(piece, operation_id=operation_id, allow_emit=allow_emit)
        if taken is not None:
            taken.rollback = taken.commit  # type: ignore[method-assign]
        return taken


class _StickyBuffer(UnitBuffer):
    def clear(self) -> None:
        pass


class _AnyRateBuffer(UnitBuffer):
    def prepare_append(
        self, piece: AppendPiece, *, operation_id: str, allow_emit: bool
    ) -> PcmReservation | None:
        if piece.audio is not None:
            piece = replace(piece, audio=replace(piece.audio, rate=self._rate))
        return super().prepare_append(piece, operation_id=operation_id, allow_emit=allow_emit)


class _Buffered(Right):
    buffer: type[UnitBuffer]

    def create_session_state(self) -> DuplexModelSessionState:
        return DuplexModelSessionState(self.buffer(1600, 16_000))


class LosesSamples(_Buffered):
    buffer = _LosingBuffer


class CutsTooEarly(_Buffered):
    buffer = _EagerBuffer


class CountsNothing(_Buffered):
    buffer = _UncountedBuffer


class KeepsWhatWasGivenBack(_Buffered):
    buffer = _OneWayBuffer


class NeverClears(_Buffered):
    buffer = _StickyBuffer


class TakesAnyRate(_Buffered):
    buffer = _AnyRateBuffer
