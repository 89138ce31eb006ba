"""What of a session's ledgers changed in a step, as types that laws can ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .snapshot import Snapshot

__all__ = [
    "BytesMoved",
    "ConfigMoved",
    "CursorsMoved",
    "Ending",
    "EpochMoved",
    "FenceMoved",
    "HistoryMoved",
    "LeaseMoved",
    "PhaseMoved",
    "ResponseMoved",
    "SequenceMoved",
    "TurnMoved",
    "TurnsMoved",
    "UnitsMoved",
    "moved",
]


class BytesMoved:
    """Reserved or buffered input."""


class ConfigMoved:
    """The config in force."""


class CursorsMoved:
    """How much of some response was made, sent or heard."""


class Ending:
    """The session was closing or over before the step."""


class EpochMoved:
    """An interruption."""


class FenceMoved:
    """What stage work is accepted."""


class HistoryMoved:
    """What a model reads of the conversation."""


class LeaseMoved:
    """The generation of the lease."""


class PhaseMoved:
    """The session began to end, or ended."""


class ResponseMoved:
    """Which response of the conversation is open."""


class SequenceMoved:
    """The number of the newest unit."""


class TurnMoved:
    """The model's turn."""


class TurnsMoved:
    """Commits that wait."""


class UnitsMoved:
    """Units on their way to the stage."""


def moved(before: Snapshot, after: Snapshot, kinds: list[type[Any]]) -> None:
    """Add to ``kinds`` what changed from one moment to the other."""
    if before.phase != "open":
        kinds.append(Ending)
    if after is before:
        return
    if after.input_bytes != before.input_bytes or after.buffered_bytes != before.buffered_bytes:
        kinds.append(BytesMoved)
    if after.fence != before.fence or after.epoch != before.epoch:
        _moved_on(before, after, kinds)
    elif after.seq != before.seq:
        kinds.append(SequenceMoved)
    if after.turn_id != before.turn_id:
        kinds.append(TurnMoved)
    if after.pending_turns != before.pending_turns or after.commits != before.commits:
        kinds.append(TurnsMoved)
    if after.units != before.units:
        kinds.append(UnitsMoved)
    if after.cursors != before.cursors:
        kinds.append(CursorsMoved)
    if after.messages is not before.messages:
        kinds.append(HistoryMoved)
    if after.response != before.response:
        kinds.append(ResponseMoved)
    if after.config is not before.config:
        kinds.append(ConfigMoved)
    if after.generation != before.generation:
        kinds.append(LeaseMoved)
    if after.phase != before.phase:
        kinds.append(PhaseMoved)


def _moved_on(before: Snapshot, after: Snapshot, kinds: list[type[Any]]) -> None:
    """Of an epoch or a turn that is over."""
    if after.fence != before.fence:
        kinds.append(FenceMoved)
        kinds.append(SequenceMoved)
    elif after.seq != before.seq:
        kinds.append(SequenceMoved)
    if after.epoch != before.epoch:
        kinds.append(EpochMoved)
