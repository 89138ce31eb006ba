"""One stage of a pipeline: which model, where it may run, how it is stepped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .types import Json

__all__ = ["Backend", "StageConfig"]

Backend = Literal["inline", "process", "vllm", "ray"]


@dataclass(frozen=True, slots=True)
class StageConfig:
    """One stage.

    Attributes:
        id: names it in the deployment file, in metrics and in ``/health``.
        model: ``"package.module:Class"`` of a ``StageModel``; None only for the ``vllm`` backend.
        backends: the ones allowed; the first is the default.
        period_ms: a unit that takes longer is late. None: the model's unit period in stage 0 of a
            model that decides its own turns, else never.
        max_batch: the largest number of sessions in one step.
        gather_ms: how long a step waits for more sessions to be ready.
        quick: a promise that no call takes over 0.2 ms or blocks; ``inline`` then needs no thread.
        replicas: copies of the stage.
        device: where it runs; None: CUDA where it is, else CPU.
        memory_bytes: need of one replica, checked before loading.
        options: for the model, as ``LoadContext.options``.
        sampling: defaults of the sampling parameters.
        vllm: engine arguments of a ``vllm`` stage.
    """

    id: str
    model: str | None = None
    backends: tuple[Backend, ...] = ("inline", "process", "ray")
    period_ms: int | None = None
    max_batch: int = 64
    gather_ms: float = 0.0
    quick: bool = False
    replicas: int = 1
    device: str | None = None
    memory_bytes: int = 0
    options: Mapping[str, Json] = field(default_factory=dict)
    sampling: Mapping[str, Json] = field(default_factory=dict)
    vllm: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what no deployment could run.

        Raises:
            ValueError: naming the stage and the field.
        """
        if not self.id:
            raise ValueError("a stage needs an id")
        if not self.backends:
            raise ValueError(f"stage {self.id!r}: backends must name at least one")
        if self.model is None and self.backends != ("vllm",):
            raise ValueError(f"stage {self.id!r}: model may be None only with backends ('vllm',)")
        if self.max_batch < 1 or self.replicas < 1:
            raise ValueError(f"stage {self.id!r}: max_batch and replicas must be at least 1")
        if self.gather_ms < 0:
            raise ValueError(f"stage {self.id!r}: gather_ms must not be negative")
        if self.period_ms is not None and self.period_ms < 1:
            raise ValueError(f"stage {self.id!r}: period_ms must be at least 1")
