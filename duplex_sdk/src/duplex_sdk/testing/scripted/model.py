"""The light half: capabilities, configuration, and how input reaches the stage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec.structs import replace

from duplex_sdk.plugin import (
    AppendRequest,
    DuplexAppendPlan,
    DuplexCapabilities,
    DuplexDataPlane,
    DuplexModelPlugin,
    ModelResult,
)
from duplex_sdk.stage import Json, PipelineConfig, StageConfig, StageOutput
from duplex_sdk.testing.faults import Fault, find_fault, hang, struck

from .script import merged, parse

__all__ = ["Scripted"]

_ABLE = ("audio_truncate", "session_resume", "session_lease", "multi_session", "image_input")
_ABLE_IN_TURNS = ("text_only_turn", "out_of_band_responses")


def _fault(runtime: Mapping[str, Json], where: str, nth: int) -> Fault | None:
    script = runtime.get("script") or {}
    return find_fault(parse(script).faults, where, nth) if script.get("faults") else None


class _DataPlane(DuplexDataPlane):
    def project(self, output: StageOutput, *, state: Any, context: Any) -> Iterable[ModelResult]:
        results = tuple(super().project(output, state=state, context=context))
        state.projections = getattr(state, "projections", 0) + 1
        fault = _fault(context.session.runtime, "project", state.projections)
        if fault is not None and fault.do == "double":
            return results * 2
        if fault is not None and fault.do == "empty_speak":
            return (ModelResult(text=""),)
        return cast(Iterable[ModelResult], struck(fault, results))


class Scripted(DuplexModelPlugin):
    """Does what the script says. Of the fault place ``plan``, calls are counted per epoch."""

    data_plane = _DataPlane()
    private_runtime_config_keys = frozenset({"tool_results", "config_calls"})

    def __init__(self, options: Mapping[str, Json]) -> None:
        super().__init__(options)
        script = options.get("script") or {}
        try:
            self._default = json.loads(script) if isinstance(script, str) else dict(script)
        except json.JSONDecodeError as error:
            raise ValueError(f"the option script is not JSON: {error}") from error
        self._script = parse(self._default, "script")

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        """Everything the engine can do, by the server's script."""
        script = self._script
        native = script.turns == "native"
        changes: dict[str, Any] = {
            **{f"supports_{name}": True for name in (*_ABLE, *(() if native else _ABLE_IN_TURNS))},
            "supports_tools": script.tools is not None,
            "chunk_period_ms": script.unit_ms,
            "input_sample_rate_hz": script.in_rate,
            "output_sample_rate_hz": script.out_rate,
        }
        if script.limit_units is not None:
            changes["max_session_s"] = script.limit_units * script.unit_ms / 1000
        kind = DuplexCapabilities.native if native else DuplexCapabilities.turn_based
        return kind(**changes)

    def pipeline(self) -> PipelineConfig:
        """One stage, on the engine loop unless the server's script costs time or breaks things."""
        stage = StageConfig(
            id="scripted",
            model="duplex_sdk.testing.scripted.stage:ScriptedModel",
            quick=not self._script.cost_s and not self._script.faults,
            options={"script": self._default},
        )
        return PipelineConfig(stages=(stage,))

    def validate_client_extra_body(self, extra_body: Mapping[str, Json] | None) -> None:
        """Refuse a script that cannot be."""
        self._merged({"extra_body": extra_body})

    async def prepare_runtime_config(
        self, config: Mapping[str, Json], *, model_config: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        """The session's script over the server's."""
        runtime = {"script": self._merged(config), "config_calls": 1}
        fault = _fault(runtime, "config", 1)
        await hang(fault)
        return cast(Mapping[str, Json], struck(fault, runtime))

    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        """The same again."""
        calls = current.get("config_calls", 1) + 1
        runtime = {**current, "script": self._merged(config), "config_calls": calls}
        return cast(Mapping[str, Json], struck(_fault(runtime, "config", calls), runtime))

    def runtime_config_for_function_output(
        self, config: Mapping[str, Json], current: Mapping[str, Json], item: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        """Queue a tool's result for the stage."""
        return {**current, "tool_results": [*current.get("tool_results", ()), dict(item)]}

    def runtime_config_after_model_output(
        self, current: Mapping[str, Json], data: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        """Drop the results that the stage took."""
        took = data.get("took") or ()
        left = [each for each in current.get("tool_results", ()) if each.get("call_id") not in took]
        return {**current, "tool_results": left} if took else None

    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        """The unit as it is, with the results of tools that came in the meantime."""
        runtime = request.session.runtime
        plan = super().plan_append(request)
        if runtime.get("tool_results"):
            data = {"tool_results": list(runtime["tool_results"])}
            plan = DuplexAppendPlan(replace(plan.prompt, data=data))
        return cast(DuplexAppendPlan, struck(_fault(runtime, "plan", request.seq), plan))

    async def prepare_append_plan(self, request: AppendRequest) -> DuplexAppendPlan:
        """``plan_append``; waits only when a fault says so."""
        await hang(_fault(request.session.runtime, "plan", request.seq))
        return self.plan_append(request)

    def _merged(self, config: Mapping[str, Json]) -> dict[str, Json]:
        return merged(self._default, (config.get("extra_body") or {}).get("script") or {})
