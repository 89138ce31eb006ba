"""The light half: capabilities, configuration, and how input reaches the stage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from duplex_sdk.plugin import AppendRequest, DuplexAppendPlan, DuplexCapabilities, DuplexModelPlugin
from duplex_sdk.stage import Json, PipelineConfig, StageConfig
from duplex_sdk.testing.faults import Fault
from duplex_sdk.testing.faulty_hooks import FaultyHooks

from .script import merged, parse

__all__ = ["Scripted"]

_ABLE = ("audio_truncate", "session_resume", "session_lease", "multi_session", "image_input")
_ABLE_IN_TURNS = ("text_only_turn", "out_of_band_responses")


class _Scripted(DuplexModelPlugin):
    private_runtime_config_keys = frozenset({"tool_results"})

    def __init__(self, options: Mapping[str, Json]) -> None:
        super().__init__(options)
        script = options.get("script") or {}
        try:
            self._default = json.loads(script) if isinstance(script, str) else dict(script)
        except json.JSONDecodeError as error:
            raise ValueError(f"the option script is not JSON: {error}") from error
        self._script = parse(self._default, "script")
        self._stage = StageConfig(
            id="scripted",
            model="duplex_sdk.testing.scripted.stage:ScriptedModel",
            quick=not self._script.cost_s and not self._script.faults,
            options={"script": self._default},
        )

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
        return PipelineConfig(stages=(self._stage,))

    def validate_client_extra_body(self, extra_body: Mapping[str, Json] | None) -> None:
        """Refuse a script that cannot be."""
        self._merged({"extra_body": extra_body})

    async def prepare_runtime_config(
        self, config: Mapping[str, Json], *, model_config: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        """The session's script over the server's."""
        return {"script": self._merged(config)}

    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        """The same again."""
        return {**current, "script": self._merged(config)}

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
        plan, results = super().plan_append(request), request.session.runtime.get("tool_results")
        if not results:
            return plan
        return DuplexAppendPlan(replace(plan.prompt, data={"tool_results": list(results)}))

    def _merged(self, config: Mapping[str, Json]) -> dict[str, Json]:
        return merged(self._default, (config.get("extra_body") or {}).get("script") or {})


class Scripted(FaultyHooks, _Scripted):
    """Does what the script says."""

    def faults(self, runtime: Mapping[str, Json]) -> Iterable[Fault]:
        """Those of the session's script."""
        script = runtime.get("script") or {}
        return parse(script).faults if script.get("faults") else ()
