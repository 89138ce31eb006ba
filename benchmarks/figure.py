"""One measured figure, and what is made of many samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Figure", "quantile"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A result.

    Attributes:
        name: what was measured.
        value: in ``unit``.
        unit: us, ms, %, KiB, MiB, s, or what is counted.
        target: what it should reach, None where nothing is promised.
        at_least: the target is a floor; else it is a ceiling.
        floor: the same measured on next to nothing in this run, None where there is no such thing.
    """

    name: str
    value: float
    unit: str
    target: float | None = None
    at_least: bool = False
    floor: float | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.target is None or math.isnan(self.value):
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target


def quantile(samples: Sequence[float], share: float) -> float:
    """The sample below which ``share`` of all lie; NaN of none."""
    if not samples:
        return math.nan
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
