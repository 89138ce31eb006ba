"""Laws of our own, from 121: what no numbered sentence says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.session import effects

from .law import law

if TYPE_CHECKING:
    from .step import Step


@law(121, "step", effects.Report)
def nothing_breaks_inside(step: Step) -> bool:
    """No step of the core fails in a way it did not expect."""
    for effect in step.asks(effects.Report):
        assert effect.level != "error", effect.message
    return True
