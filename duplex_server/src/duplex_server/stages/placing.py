"""On which backend a stage runs, and how its replicas are made there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from duplex_sdk.stage import LoadContext, StageConfig, StageLoadError
from duplex_sdk.stage.device import resolve_device
from duplex_sdk.stage.worker import Load

from .inline_replica import HostSettings
from .loop_replica import LoopReplica
from .process_replica import ProcessReplica, WorkerSettings
from .remote_worker import RemotePlace
from .replica import ReplicaSink, StageReplica
from .thread_replica import ThreadReplica

__all__ = ["StagePlacing"]

MakeReplica = Callable[[int, ReplicaSink], StageReplica]


@dataclass(frozen=True, slots=True)
class StagePlacing:
    """One stage and what its replicas need besides the model.

    Attributes:
        stage_id: position in the pipeline.
        config: the stage.
        plugin: its plugin's name, for people.
        output_rate: Hz that output audio must have; None: any.
        period_ms: a unit that ends later than this is late; None: never.
        call_timeout_s: a call of the model that lasts longer counts as stuck.
        worker_python: interpreter of workers; None: the one that runs this.
        clock: seconds, monotonic.
        places: of workers on other machines, taken in turn; empty: workers run here.
    """

    stage_id: int
    config: StageConfig
    plugin: str
    output_rate: int | None
    period_ms: float | None
    call_timeout_s: float
    worker_python: Path | None
    clock: Callable[[], float]
    places: tuple[RemotePlace, ...] = ()

    def factory(self) -> MakeReplica:
        """How to make a replica on the first allowed backend that there is.

        Raises:
            StageLoadError: none of those allowed is here.
        """
        makers: dict[str, MakeReplica] = {
            "inline": self._inline,
            "process": self._process,
            "vllm": self._vllm,
        }
        for backend in self.config.backends:
            if backend in makers and (backend == "vllm" or self.config.model is not None):
                return makers[backend]
        raise StageLoadError(
            f"stage {self.config.id!r} runs on {', '.join(self.config.backends)} only;"
            f" this server has the backends {', '.join(makers)}"
        )

    def _inline(self, replica_id: int, sink: ReplicaSink) -> StageReplica:
        config = self.config
        assert config.model is not None
        context = LoadContext(
            stage_id=self.stage_id,
            replica_id=replica_id,
            device=resolve_device(config.device, replica_id),
            options=config.options,
            max_batch=config.max_batch,
        )
        settings = HostSettings(
            model=config.model,
            context=context,
            clock=self.clock,
            output_rate=self.output_rate,
            gather_ms=config.gather_ms,
            period_ms=self.period_ms,
            memory_bytes=config.memory_bytes,
        )
        if config.quick:
            return LoopReplica(settings, sink)
        return ThreadReplica(
            settings, sink, call_timeout_s=self.call_timeout_s, name=self._name(replica_id)
        )

    def _process(self, replica_id: int, sink: ReplicaSink) -> StageReplica:
        return self._in_worker(replica_id, sink, self.config.model)

    def _vllm(self, replica_id: int, sink: ReplicaSink) -> StageReplica:
        """A worker as any other; what it is told to load makes it start vLLM."""
        return self._in_worker(replica_id, sink, None)

    def _in_worker(self, replica_id: int, sink: ReplicaSink, model: str | None) -> StageReplica:
        config = self.config
        load = Load(
            plugin=self.plugin,
            model=model,
            stage_id=self.stage_id,
            replica_id=replica_id,
            device=config.device,
            memory_bytes=config.memory_bytes,
            options=config.options,
            max_batch=config.max_batch,
            gather_ms=config.gather_ms,
            period_ms=self.period_ms,
            output_rate=self.output_rate,
            vllm=config.vllm,
            sampling=config.sampling,
        )
        settings = WorkerSettings(
            load,
            name=self._name(replica_id),
            call_timeout_s=self.call_timeout_s,
            python=self.worker_python,
            place=self.places[replica_id % len(self.places)] if self.places else None,
        )
        return ProcessReplica(settings, sink)

    def _name(self, replica_id: int) -> str:
        return f"stage-{self.config.id}-{replica_id}"
