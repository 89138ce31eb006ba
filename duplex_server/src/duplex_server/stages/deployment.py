"""What a deployment settles about the stages of whatever plugin it serves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duplex_sdk.stage import Json, PipelineConfig, StageConfig
from duplex_sdk.stage.worker import SECRET_VARIABLE
from duplex_sdk.stage.worker.address import host_and_port
from duplex_sdk.stage.worker.proof import SHORTEST_SECRET

from .errors import StageSettingError
from .remote_worker import RemotePlace
from .restart_policy import RestartPolicy

__all__ = ["BACKENDS", "Deployment"]

_WORKERS = "workers"
_PYTHON = "worker_python"
_IN_WORKERS = ("process", "vllm")
"""Backends that run a replica in a worker."""

BACKENDS = ("inline", *_IN_WORKERS)
"""Those of this server."""

_MERGED = frozenset({"options", "sampling", "vllm"})
"""Mappings of which a deployment may change single keys; everything else it replaces."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Changes to a pipeline, and what its workers run with.

    Attributes:
        stages: per stage id the fields of ``StageConfig`` to change; ``backend`` chooses one of
            ``backends``, ``workers`` names the ``HOST:PORT`` of workers on other machines,
            ``worker_python`` the interpreter of its own workers.
        device: of every stage that ``stages`` gives none.
        worker_python: interpreter of the environment that workers run in; every stage then runs in
            workers unless ``stages`` says otherwise. None: this environment.
        worker_secret: what workers on other machines were started with.
        restart: when replicas that failed are started again.
    """

    stages: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    device: str | None = None
    worker_python: Path | None = None
    worker_secret: str | None = field(default=None, repr=False)
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

    def places_of(self, stage_id: str) -> tuple[RemotePlace, ...]:
        """Where workers of a stage run, one replica after the other; empty: on this machine.

        Raises:
            StageSettingError: an address is none, or there is no secret to prove.
        """
        addresses = self._addresses(stage_id)
        path = f"stages.{stage_id}.{_WORKERS}"
        for address in addresses:
            try:
                host_and_port(address)
            except ValueError as error:
                raise StageSettingError(path, str(error)) from error
        if addresses and len(self.worker_secret or "") < SHORTEST_SECRET:
            raise StageSettingError(
                "worker_secret",
                f"workers elsewhere need one of at least {SHORTEST_SECRET} characters",
                hint=f"set {SECRET_VARIABLE} to the same long random text here and there",
            )
        return tuple(RemotePlace(address, self.worker_secret or "") for address in addresses)

    def python_of(self, stage_id: str) -> Path | None:
        """Interpreter of a stage's workers; None: the one that runs this."""
        given = self.stages.get(stage_id, {}).get(_PYTHON)
        # Where its link lies tells an interpreter which environment it belongs to.
        return self.worker_python if given is None else Path(given).absolute()

    def _addresses(self, stage_id: str) -> tuple[str, ...]:
        given = self.stages.get(stage_id, {}).get(_WORKERS)
        if given is None:
            return ()
        if not isinstance(given, list | tuple):
            raise StageSettingError(f"stages.{stage_id}.{_WORKERS}", "this is a list of HOST:PORT")
        return tuple(map(str, given))

    def _applied(self, stage: StageConfig) -> StageConfig:
        path = f"stages.{stage.id}"
        changes: dict[str, Any] = dict(self.stages.get(stage.id, {}))
        if places := self.places_of(stage.id):
            changes.setdefault("replicas", len(places))
        for name in (_WORKERS, _PYTHON):
            changes.pop(name, None)
        backend = self._backend(path, stage, changes.pop("backend", None))
        if "vllm" in changes and backend != "vllm":
            raise StageSettingError(
                f"{path}.vllm", f"a stage that runs as '{backend}' takes no arguments of vLLM"
            )
        changes["backends"] = (backend,)
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
        for name in (_WORKERS, _PYTHON):
            if self.stages.get(stage.id, {}).get(name) and wanted not in (None, *_IN_WORKERS):
                raise StageSettingError(
                    f"{path}.{name}", f"a stage that runs as '{wanted}' has no workers"
                )
        here = [backend for backend in stage.backends if backend in BACKENDS]
        hint = f"it may run as: {', '.join(here) or 'nothing that this server has'}"
        if wanted is None:
            elsewhere = self.python_of(stage.id) is not None or self._addresses(stage.id)
            allowed = [backend for backend in here if backend in _IN_WORKERS or not elsewhere]
            if not allowed:
                raise self._unfit(path, stage, hint)
            return allowed[0]
        if wanted not in here:
            raise StageSettingError(
                f"{path}.backend", f"the stage does not run as '{wanted}'", hint=hint
            )
        return wanted

    def _unfit(self, path: str, stage: StageConfig, hint: str) -> StageSettingError:
        """What to blame for a stage that can't run where it would have to."""
        told = self.stages.get(stage.id, {})
        for name in (_WORKERS, _PYTHON):
            if told.get(name):
                return StageSettingError(
                    f"{path}.{name}", "the stage does not run in a worker", hint=hint
                )
        if self.worker_python is not None:
            reason = f"stage {stage.id} does not run in a worker"
            return StageSettingError(_PYTHON, reason, hint=hint)
        alone = f"it runs as {', '.join(stage.backends)} alone"
        return StageSettingError(path, alone, hint=hint)
