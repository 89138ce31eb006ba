"""Faults in the hooks of a plugin: planning, configuration, projection."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from duplex_sdk.plugin import (
    AppendRequest,
    DuplexAppendPlan,
    DuplexDataPlane,
    DuplexModelPlugin,
    ModelResult,
)
from duplex_sdk.stage import Json, StageOutput

from .faults import Fault, find_fault, hang, struck

__all__ = ["FaultyHooks"]

Faults = Callable[[Mapping[str, Json]], Iterable[Fault]]


class FaultyHooks(DuplexModelPlugin):
    """Goes in front of a plugin class in the bases, and lets its hooks fail as told.

    Calls of the place ``plan`` are counted per epoch, of ``config`` and ``project`` per session.
    """

    def __init__(self, options: Mapping[str, Json]) -> None:
        super().__init__(options)
        self.data_plane = _FaultyDataPlane(self.faults)
        self.private_runtime_config_keys |= {"config_calls"}

    @abstractmethod
    def faults(self, runtime: Mapping[str, Json]) -> Iterable[Fault]:
        """The faults of the session that has this runtime configuration."""

    async def prepare_runtime_config(
        self, config: Mapping[str, Json], *, model_config: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        """The plugin's, unless a fault says otherwise."""
        runtime = await super().prepare_runtime_config(config, model_config=model_config)
        runtime = {**runtime, "config_calls": 1}
        fault = find_fault(self.faults(runtime), "config", 1)
        await hang(fault)
        return cast(Mapping[str, Json], struck(fault, runtime))

    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        """The plugin's, unless a fault says otherwise."""
        calls = current.get("config_calls", 1) + 1
        runtime = super().runtime_config_for_update(config, current, started=started)
        runtime = {**runtime, "config_calls": calls}
        fault = find_fault(self.faults(runtime), "config", calls)
        return cast(Mapping[str, Json], struck(fault, runtime))

    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        """The plugin's, unless a fault says otherwise."""
        fault = find_fault(self.faults(request.session.runtime), "plan", request.seq)
        return cast(DuplexAppendPlan, struck(fault, super().plan_append(request)))

    async def prepare_append_plan(self, request: AppendRequest) -> DuplexAppendPlan:
        """``plan_append``; waits only when a fault says so."""
        await hang(find_fault(self.faults(request.session.runtime), "plan", request.seq))
        return self.plan_append(request)


class _FaultyDataPlane(DuplexDataPlane):
    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def project(self, output: StageOutput, *, state: Any, context: Any) -> Iterable[ModelResult]:
        results = tuple(super().project(output, state=state, context=context))
        state.projections = getattr(state, "projections", 0) + 1
        faults = self._faults(context.session.runtime)
        fault = find_fault(faults, "project", state.projections)
        if fault is not None and fault.do == "double":
            return results * 2
        if fault is not None and fault.do == "empty_speak":
            return (ModelResult(text=""),)
        return cast(Iterable[ModelResult], struck(fault, results))
