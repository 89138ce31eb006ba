"""The light half: capabilities, configuration, and how input reaches the stage."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, cast

from msgspec.structs import replace

from duplex_sdk.plugin import (
    AppendRequest,
    DuplexAppendPlan,
    DuplexCapabilities,
    DuplexDataPlane,
    DuplexModelPlugin,
    DuplexModelSessionState,
    ModelResult,
    OutputContext,
    UnitBuffer,
)
from duplex_sdk.stage import Json, PipelineConfig, StageConfig, StageOutput

from .script import Delay, Fault, merged, parse

__all__ = ["Scripted", "ScriptedDataPlane", "ScriptedState"]

_ABILITIES = {
    f"supports_{name}": True
    for name in (
        "audio_truncate",
        "session_resume",
        "session_lease",
        "multi_session",
        "image_input",
    )
}


def _fault(runtime: Mapping[str, Json], where: str, count: int) -> Fault | None:
    script = runtime.get("script") or {}
    return parse(script).fault(where, count) if script.get("faults") else None


def _carry_out(fault: Fault | None, result: Any) -> Any:
    """What a hook returns instead of ``result``, after what the fault says has happened."""
    if fault is None:
        return result
    if isinstance(fault.do, Delay):
        time.sleep((fault.do.block_ms or 0) / 1000)
        return result
    if fault.do in ("system_exit", "die"):
        raise SystemExit("scripted fault")
    if fault.do == "raise":
        raise RuntimeError("scripted fault")
    return {"none": None, "garbage": object(), "unknown_decision": object()}.get(fault.do, result)


async def _hang(fault: Fault | None) -> None:
    if fault is not None and isinstance(fault.do, Delay) and fault.do.hang_ms:
        await asyncio.sleep(fault.do.hang_ms / 1000)


class ScriptedState(DuplexModelSessionState):
    """Counts a session's projections, for faults."""

    projections = 0


class ScriptedDataPlane(DuplexDataPlane):
    """Reads outputs field by field, but for scripted faults."""

    def project(
        self, output: StageOutput, *, state: DuplexModelSessionState, context: object
    ) -> Iterable[ModelResult]:
        """See ``DuplexDataPlane``."""
        results = tuple(super().project(output, state=state, context=context))
        runtime = cast(OutputContext, context).session.runtime
        counter = cast(ScriptedState, state)
        counter.projections += 1
        fault = _fault(runtime, "project", counter.projections)
        if fault is not None and fault.do == "double":
            return results + results
        if fault is not None and fault.do == "empty_speak":
            return (ModelResult(text=""),)
        return cast(Iterable[ModelResult], _carry_out(fault, results))


class Scripted(DuplexModelPlugin):
    """Does what the script says; see the descriptor for how it is told."""

    data_plane = ScriptedDataPlane()
    private_runtime_config_keys = frozenset({"tool_results", "config_calls"})

    def __init__(self, options: Mapping[str, Json]) -> None:
        """Read the server's default script.

        Raises:
            DuplexRuntimeConfigError: it is none.
        """
        super().__init__(options)
        script = options.get("script") or {}
        self._default = json.loads(script) if isinstance(script, str) else dict(script)
        self._script = parse(self._default, "script")

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        """See ``SessionPolicy``."""
        script = self._script
        limit = script.limit_units
        common: dict[str, Any] = {
            **_ABILITIES,
            "supports_tools": script.tools is not None,
            "chunk_period_ms": script.unit_ms,
            "input_sample_rate_hz": script.in_rate,
            "output_sample_rate_hz": script.out_rate,
            "max_session_s": None if limit is None else limit * script.unit_ms / 1000,
        }
        if script.turns == "native":
            return DuplexCapabilities.native(**common)
        return DuplexCapabilities.turn_based(
            **common,
            supports_text_only_turn=True,
            supports_out_of_band_responses=True,
        )

    def pipeline(self) -> PipelineConfig:
        """See ``StagePolicy``."""
        stage = StageConfig(
            id="scripted",
            model="duplex_sdk.testing.scripted.stage:ScriptedModel",
            quick=not self._script.cost_s and not self._script.faults,
            options={"script": self._default},
        )
        return PipelineConfig(stages=(stage,))

    def create_session_state(self) -> DuplexModelSessionState:
        """See ``SessionPolicy``."""
        script = self._script
        return ScriptedState(UnitBuffer(script.in_rate * script.unit_ms // 1000, script.in_rate))

    def validate_client_extra_body(self, extra_body: Mapping[str, Json] | None) -> None:
        """See ``SessionPolicy``."""
        merged(self._default, (extra_body or {}).get("script") or {})

    async def prepare_runtime_config(
        self, config: Mapping[str, Json], *, model_config: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        """See ``SessionPolicy``."""
        runtime = {"script": self._session_script(config), "config_calls": 1}
        fault = _fault(runtime, "config", 1)
        await _hang(fault)
        return cast(Mapping[str, Json], _carry_out(fault, runtime))

    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        """See ``SessionPolicy``."""
        calls = current.get("config_calls", 0) + 1
        runtime = {**current, "script": self._session_script(config), "config_calls": calls}
        return cast(Mapping[str, Json], _carry_out(_fault(runtime, "config", calls), runtime))

    def runtime_config_for_function_output(
        self, config: Mapping[str, Json], current: Mapping[str, Json], item: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        """Queue a tool's result for the stage."""
        results = [*current.get("tool_results", ()), dict(item)]
        return {**current, "tool_results": results}

    def runtime_config_after_model_output(
        self, current: Mapping[str, Json], data: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        """Drop the results that the stage took."""
        took = data.get("took")
        if not took:
            return None
        left = [item for item in current.get("tool_results", ()) if item.get("call_id") not in took]
        return {**current, "tool_results": left}

    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        """The unit as it is, with the results of tools that came in the meantime."""
        runtime = request.session.runtime
        plan = super().plan_append(request)
        results = runtime.get("tool_results")
        if results:
            plan = DuplexAppendPlan(replace(plan.prompt, data={"tool_results": list(results)}))
        return cast(DuplexAppendPlan, _carry_out(_fault(runtime, "plan", request.seq), plan))

    async def prepare_append_plan(self, request: AppendRequest) -> DuplexAppendPlan:
        """See ``AppendPlanner``; waits only when a fault says so."""
        await _hang(_fault(request.session.runtime, "plan", request.seq))
        return self.plan_append(request)

    def _session_script(self, config: Mapping[str, Json]) -> dict[str, Json]:
        return merged(self._default, (config.get("extra_body") or {}).get("script") or {})
