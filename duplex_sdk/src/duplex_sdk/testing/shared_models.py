"""A plugin's models, loaded once for any number of benches and labs that come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from duplex_sdk.stage import LoadContext, PipelineConfig, StageInfo, StageModel
from duplex_sdk.stage.host import StageHost
from duplex_sdk.stage.model_class import load_model_class

__all__ = ["SharedModels", "load_host", "load_stage"]

_BETWEEN_S = 1000.0


def load_host(
    pipeline: PipelineConfig, index: int, *, clock: Callable[[], float], output_rate: int | None
) -> StageHost:
    """A host of one stage whose model is loaded on a CPU.

    Args:
        pipeline: whose stage.
        index: which.
        clock: seconds, monotonic; the only clock the model sees.
        output_rate: Hz that output audio must have; None: any.

    Raises:
        StageLoadError: it does not load.
        ValueError: the stage runs on an engine of its own and has no model.
    """
    return _loaded(pipeline, index, clock, output_rate)[0]


def load_stage(pipeline: PipelineConfig, index: int) -> tuple[StageModel[Any], StageInfo]:
    """Load one stage's model on a CPU; for ``Raises`` see ``load_host``."""
    return _loaded(pipeline, index, lambda: 0.0, None)[1:]


def _loaded(
    pipeline: PipelineConfig, index: int, clock: Callable[[], float], output_rate: int | None
) -> tuple[StageHost, StageModel[Any], StageInfo]:
    stage = pipeline.stages[index]
    if stage.model is None:
        raise ValueError(f"stage {stage.id!r} runs on vllm: there is no model to load here")
    model = load_model_class(stage.model)()
    host = StageHost(model, clock=clock, output_rate=output_rate, max_batch=stage.max_batch)
    context = LoadContext(
        stage_id=index, options=stage.options, max_batch=stage.max_batch, device="cpu"
    )
    return host, model, host.load(context)


class SharedModels:
    """The models of a pipeline, one per stage, and the time they have seen.

    Whoever uses them closes what it opened: the models serve others afterwards.

    Attributes:
        clock: the latest moment any host of the models has seen, seconds. A model lives through
            many benches, and its clock never goes back.
    """

    def __init__(self, pipeline: PipelineConfig, models: Sequence[StageModel[Any]]) -> None:
        self.clock = 0.0
        self._pipeline = pipeline
        self._models = tuple(models)

    @classmethod
    def load(cls, pipeline: PipelineConfig) -> SharedModels:
        """Load the models of all stages.

        Raises:
            StageLoadError: one does not load.
            ValueError: a stage has no model.
        """
        return cls(
            pipeline, [load_stage(pipeline, index)[0] for index in range(len(pipeline.stages))]
        )

    def next_clock(self) -> float:
        """Where the clock of a new bench begins: a round figure, later than all before it."""
        return (self.clock // _BETWEEN_S + 1) * _BETWEEN_S

    def hosts(self, now: Callable[[], float], output_rate: int) -> tuple[StageHost, ...]:
        """A host per stage for a lab with a time of its own, which begins at 0.

        Args:
            now: the lab's time, seconds.
            output_rate: Hz of the plugin's audio.
        """
        time = _LabTime(self, now)
        return tuple(
            _LabHost(
                model,
                time=time,
                clock=time.now,
                output_rate=output_rate,
                max_batch=stage.max_batch,
            )
            for model, stage in zip(self._models, self._pipeline.stages, strict=True)
        )


class _LabTime:
    """The time of one lab, for models that others use besides: to them it only goes forward.

    Two labs of one simulation take turns, so that each finds the models' clock ahead of what it
    left. It goes on from there: what it waits for comes no later than it should.
    """

    def __init__(self, models: SharedModels, now: Callable[[], float]) -> None:
        self._models = models
        self._now = now
        self._ahead = models.next_clock()

    def now(self) -> float:
        """Seconds, as the models see it."""
        moment = self._now() + self._ahead
        if moment < self._models.clock:
            moment = self._models.clock
            self._ahead = moment - self._now()
        self._models.clock = moment
        return moment

    def of_lab(self, moment: float) -> float:
        """A moment of the models in the lab's time."""
        self.now()
        return moment - self._ahead


class _LabHost(StageHost):
    """A host that tells the lab in the lab's time when something is due."""

    def __init__(self, model: StageModel[Any], *, time: _LabTime, **options: Any) -> None:
        super().__init__(model, **options)
        self._time = time

    def next_due(self) -> float | None:
        due = super().next_due()
        return None if due is None else self._time.of_lab(due)
