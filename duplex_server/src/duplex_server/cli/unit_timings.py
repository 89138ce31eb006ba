"""How long a plugin's steps take, as lines for whoever writes it."""

from __future__ import annotations

import statistics
import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duplex_server.entrypoints import AsyncOmni

__all__ = ["UnitTimings"]

_EVERY_S = 2.0


class UnitTimings:
    """Prints a line per stage every two seconds in which it took a step.

    Args:
        omni: the engine; its steps go on to whoever was told of them before.
    """

    def __init__(self, omni: AsyncOmni) -> None:
        self._stages = omni.pipeline.stages
        self._figures = omni.figures
        self._also = omni.figures.on_step
        self._lock = threading.Lock()
        self._steps: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
        self._late = omni.figures.units_late

    def start(self) -> None:
        """Listen to the engine and print from now on, until the process ends."""
        self._figures.on_step = self.take
        threading.Thread(target=self._print, name="unit timings", daemon=True).start()

    def take(self, stage: int, step_ms: float, batch: int) -> None:
        """One step; called on the engine's thread."""
        if self._also is not None:
            self._also(stage, step_ms, batch)
        with self._lock:
            self._steps[stage].append((step_ms, batch))

    def lines(self) -> list[str]:
        """What happened since the last call, stage by stage."""
        with self._lock:
            steps, self._steps = self._steps, defaultdict(list)
        late, self._late = self._figures.units_late - self._late, self._figures.units_late
        lines = [self._line(stage, taken) for stage, taken in sorted(steps.items())]
        return [*lines, f"units late: {late}"] if late else lines

    def _line(self, stage: int, taken: list[tuple[float, int]]) -> str:
        times = [step_ms for step_ms, _ in taken]
        units = sum(batch for _, batch in taken)
        config = self._stages[stage]
        period = f" of {config.period_ms} ms" if config.period_ms else ""
        return (
            f"{config.id}: {units} units in {len(taken)} steps,"
            f" {statistics.median(times):.1f} ms median, {max(times):.1f} ms longest{period}"
        )

    def _print(self) -> None:
        while True:
            time.sleep(_EVERY_S)
            for line in self.lines():
                print(line, flush=True)
