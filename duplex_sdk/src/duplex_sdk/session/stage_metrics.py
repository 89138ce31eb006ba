"""Figures of the stages, added up for one response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["StageMetrics", "add_figures"]

StageMetrics = dict[str, dict[str, Any]]
"""Figures by the stage's number, as a string."""

_COUNTERS = frozenset({"units", "outputs", "generation_ms", "audio_ms", "text_chars"})
_FIRST = frozenset({"first_output_ms"})


def add_figures(total: StageMetrics, stage: str, figures: Mapping[str, Any]) -> None:
    """Add what a stage did to what it had done before.

    Counters add up, a time to the first output is that of the first which took any, and what is
    not known here is as it was said last.

    Args:
        total: changed.
        stage: its number.
        figures: of one segment, or of several added up.
    """
    known = total.setdefault(stage, {})
    for name, value in figures.items():
        if name in _COUNTERS:
            known[name] = known.get(name, 0) + value
        elif name in _FIRST:
            known[name] = known.get(name) or value
        else:
            known[name] = value
