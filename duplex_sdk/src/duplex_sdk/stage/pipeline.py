"""Which stages a model runs, in which order, and how one's output becomes the next one's input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .stage_config import StageConfig
from .stage_input import StageInputContext, pass_on
from .types import StageOutput, StagePrompt

__all__ = ["PipelineConfig", "StageInput"]

StageInput: TypeAlias = Callable[[StageOutput, StageInputContext], Sequence[StagePrompt]]


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """The stages of a model.

    Attributes:
        stages: in order; the output of the last one goes to the client.
        duplex_plugin: the factory of the session plugin, ``"package.module:Class"``; None: none.
        turn_requests: it can also serve requests without a session.
        spoken_requests: in those the last turn may be spoken: stage 0 then gets one ``final``
            prompt of kind ``audio`` with the whole of it, and the conversation before it in
            ``messages``.
        stage_input: makes the next stage's prompts of an output; called in the engine, must be
            pure but for ``StageInputContext.memo``.
    """

    stages: tuple[StageConfig, ...]
    duplex_plugin: str | None = None
    turn_requests: bool = False
    spoken_requests: bool = False
    stage_input: StageInput = pass_on

    def __post_init__(self) -> None:
        """Refuse an empty pipeline and stages that share an id.

        Raises:
            ValueError: naming what is wrong.
        """
        if not self.stages:
            raise ValueError("a pipeline needs at least one stage")
        ids = [stage.id for stage in self.stages]
        if len(set(ids)) != len(ids):
            raise ValueError(f"stage ids must be unique; got {', '.join(ids)}")
