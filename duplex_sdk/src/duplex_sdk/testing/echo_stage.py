"""A stage that costs next to nothing: what is left when it is measured is the machinery."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from duplex_sdk.stage import (
    LoadContext,
    StageInfo,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
)

__all__ = ["EchoModel"]


class EchoModel(StageModel[None]):
    """Answers each unit with its own audio and text, a batch at once."""

    def load(self, context: LoadContext) -> StageInfo:
        """Nothing to load; runs anywhere."""
        return StageInfo(context.device)

    def open(self, session: StageSession) -> None:
        """Nothing to remember."""

    def step(self, units: Sequence[StageUnit[None]], now: float) -> Iterable[StageOutput]:
        """One output for each unit."""
        return [unit.output(audio=unit.prompt.audio, text=unit.prompt.text) for unit in units]
