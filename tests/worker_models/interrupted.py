"""A model that ends the thread it runs on, as nothing but a Ctrl-C does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duplex_sdk.stage import LoadContext, StageInfo, StageModel, StageOutput, StageSession


class Interrupted(StageModel[None]):
    """Interrupts itself while it loads (option ``load``), or when told to by a unit."""

    def load(self, context: LoadContext) -> StageInfo:
        if context.options.get("load"):
            raise KeyboardInterrupt
        return StageInfo()

    def open(self, session: StageSession) -> None:
        return None

    def step_unit(self, unit: Any, now: float) -> Iterable[StageOutput]:
        if unit.prompt.text == "interrupt":
            raise KeyboardInterrupt
        return [unit.output(text="said")]
