"""What a deployment settles about the stages of whatever plugin it serves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duplex_sdk.stage import Json, PipelineConfig, StageConfig

from .errors import StageSettingError
from .restart_policy import RestartPolicy

__all__ = ["Deployment"]

_MERGED = frozenset({"options", "sampling", "vllm"})
"""Mappings of which a deployment may change single keys; everything else it replaces."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Changes to a pipeline, and what its workers run with.

    Attributes:
        stages: per stage id the fields of ``StageConfig`` to change; ``backend`` chooses one of
            ``backends``.
        device: of every stage that ``stages`` gives none.
        worker_python: interpreter of the environment that workers run in; every stage is then a
            process unless ``stages`` says otherwise. None: this environment.
        restart: when replicas that failed are started again.
    """

    stages: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    device: str | None = None
    worker_python: Path | None = None
    restart: RestartPolicy = field(default_factory=RestartPolicy)

    def apply(self, pipeline: PipelineConfig) -> PipelineConfig:
        """The pipeline as it is to be run; each stage's ``backends`` is the one chosen.

        Raises:
            StageSettingError: there is no such stage, or it can't be run like that.
        """
        known = [stage.id for stage in pipeline.stages]
        for stage_id in self.stages:
            if stage_id not in known:
                raise StageSettingError(
                    f"stages.{stage_id}", "no such stage", hint=f"its stages: {', '.join(known)}"
                )
        return dataclasses.replace(
            pipeline, stages=tuple(self._applied(stage) for stage in pipeline.stages)
        )

    def _applied(self, stage: StageConfig) -> StageConfig:
        path = f"stages.{stage.id}"
        changes: dict[str, Any] = dict(self.stages.get(stage.id, {}))
        changes["backends"] = (self._backend(path, stage, changes.pop("backend", None)),)
        if self.device is not None:
            changes.setdefault("device", self.device)
        for name in _MERGED & changes.keys():
            changes[name] = {**getattr(stage, name), **changes[name]}
        try:
            return dataclasses.replace(stage, **changes)
        except TypeError as error:
            unknown = sorted(changes.keys() - {each.name for each in dataclasses.fields(stage)})
            raise StageSettingError(f"{path}.{unknown[0]}", "no such setting") from error
        except ValueError as error:
            raise StageSettingError(path, str(error)) from error

    def _backend(self, path: str, stage: StageConfig, wanted: str | None) -> str:
        if wanted is None:
            if self.worker_python is None:
                return stage.backends[0]
            wanted, path = "process", f"worker_python: {path}"
        if wanted not in stage.backends:
            raise StageSettingError(
                f"{path}.backend",
                f"the stage does not run as '{wanted}'",
                hint=f"it allows: {', '.join(stage.backends)}",
            )
        return wanted
