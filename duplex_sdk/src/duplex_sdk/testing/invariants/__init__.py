"""What must hold of sessions and of their table: every law has a number, a name and a function.

Numbers up to 120 are those of the engine's invariants, those above are our own. ``SessionWatch``
holds the laws of sessions against every step of a running ``SessionLab``, ``TableWatch`` those of
the table of sessions.
"""

from __future__ import annotations

from . import (
    append_order,
    beside,
    cancel_and_overlap,
    delivery,
    identity,
    input_accounting,
    lease_and_lifecycle,
    liveness,
    playback_and_history,
    refusals,
    responses,
    stage_layer,
)
from .law import LAWS, Law, LawBrokenError, Tally
from .table_step import TableWatch
from .watch import SessionWatch, readable
from .watched_buffer import with_watched_buffer

__all__ = [
    "LAWS",
    "Law",
    "LawBrokenError",
    "SessionWatch",
    "TableWatch",
    "Tally",
    "readable",
    "with_watched_buffer",
]

_FILLED = (
    identity,
    refusals,
    input_accounting,
    append_order,
    responses,
    cancel_and_overlap,
    playback_and_history,
    lease_and_lifecycle,
    delivery,
    stage_layer,
    liveness,
    beside,
)
"""Importing them is what fills the table of laws."""
