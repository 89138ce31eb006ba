"""A model that says what it is told to, piece by piece, and nothing of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import (
    AppendRequest,
    DuplexAppendPlan,
    DuplexCapabilities,
    DuplexModelPlugin,
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
    StageSession,
    StageUnit,
    ToolCall,
)
from msgspec.structs import replace

RATE = 24_000
FOREVER_MS = 3_600_000.0

spec = PluginSpec(
    name="wire-actor",
    api="1.0",
    factory="wire_actor:WireActor",
    output_sample_rate=RATE,
    max_sessions=8,
    options=(PluginOption("native", bool, False), PluginOption("acts", str, "[]")),
)


class WireActor(DuplexModelPlugin):
    """Each turn is the next of its acts.

    An act is a mapping: ``pieces``, a list of ``[text, ms]``, one every ``every_ms`` or all at
    once, then ``pause_ms`` after the first; ``hold``, the last piece is not the end; or ``call``,
    ``[name, arguments, call_id]``.
    """

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        native = self.options["native"]
        kind = DuplexCapabilities.native if native else DuplexCapabilities.turn_based
        return kind(
            output_sample_rate_hz=RATE,
            chunk_period_ms=1000,
            supports_session_resume=True,
            supports_text_only_turn=not native,
            supports_tools=True,
        )

    def pipeline(self) -> PipelineConfig:
        options = {"acts": json.loads(str(self.options["acts"]))}
        return PipelineConfig(
            stages=(StageConfig("actor", model="wire_actor:Actor", quick=True, options=options),)
        )

    def runtime_config_for_function_output(
        self, config: Mapping[str, Json], current: Mapping[str, Json], item: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        return {**current, "result": item["output"]}

    def runtime_config_after_model_output(
        self, current: Mapping[str, Json], data: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        return {"result": None} if data.get("took") else None

    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        plan = super().plan_append(request)
        if request.session.runtime.get("result") is None:
            return plan
        return DuplexAppendPlan(replace(plan.prompt, data={"asked": True}))


class Actor(StageModel[dict[str, Any]]):
    """Its state of a session: which act comes next, and what is left of the one under way."""

    def load(self, context: LoadContext) -> StageInfo:
        self._acts = context.options["acts"]
        return StageInfo()

    def open(self, session: StageSession) -> dict[str, Any]:
        return {"next": 0, "act": {}, "left": []}

    def step_unit(self, unit: StageUnit[dict[str, Any]], now: float) -> Iterable[StageOutput]:
        prompt = unit.prompt
        asked = prompt.final or prompt.kind == "conversation" or "asked" in prompt.data
        if asked and unit.state["next"] < len(self._acts):
            act = self._acts[unit.state["next"]]
            unit.state["next"] += 1
            if "asked" in prompt.data:
                yield unit.output(data={"took": True})
            if "call" in act:
                yield unit.output(tool_call=ToolCall(*act["call"]), end_of_turn=True)
                return
            unit.state.update(act=act, left=list(act["pieces"]))
        yield from _speak(unit)

    def cancel(self, state: dict[str, Any], epoch: int, heard_ms: float) -> None:
        state["left"] = []


def _speak(unit: StageUnit[dict[str, Any]]) -> Iterable[StageOutput]:
    act, left = unit.state["act"], unit.state["left"]
    while left:
        text, ms = left.pop(0)
        audio = PcmChunk.silence(int(ms * RATE / 1000), RATE)
        yield unit.output(text=text, audio=audio, end_of_turn=not left and not act.get("hold"))
        first = len(left) + 1 == len(act["pieces"])
        pause_ms = act.get("pause_ms") if first else act.get("every_ms")
        if left and pause_ms:
            yield unit.output(again_ms=pause_ms)
            return
    if act.get("hold"):
        yield unit.output(again_ms=FOREVER_MS)
