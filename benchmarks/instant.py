"""The model of the benchmarks: ``scripted``, without what its faults cost."""

from __future__ import annotations

from dataclasses import replace

from duplex_sdk.plugin import DuplexModelPlugin
from duplex_sdk.testing.scripted import plugin as scripted
from duplex_sdk.testing.scripted.model import Scripted

__all__ = ["Instant", "instant"]


class Instant(Scripted):
    """Plans at once, as most plugins do.

    ``scripted`` may be told to hang in its plan, so the engine gives each of its plans a task: 30
    us that no other plugin costs.
    """

    prepare_append_plan = DuplexModelPlugin.prepare_append_plan


instant = replace(scripted, factory=f"{__name__}:{Instant.__name__}")
