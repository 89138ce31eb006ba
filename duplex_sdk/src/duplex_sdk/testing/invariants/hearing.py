"""Which of a user's samples were kept, dropped and heard, by the numbers that they carry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy

from duplex_sdk.protocol.duplex import (
    CreateItem,
    ErrorEvent,
    InputCleared,
    InputCommitted,
    ItemDeleted,
    OverlapDecision,
    ResponseDone,
    SessionUpdated,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.testing.numbered_sound import numbers_of

from .watched_buffer import WatchedBuffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duplex_sdk.plugin import AppendPiece
    from duplex_sdk.session.state import SessionState

    from .step import Step
    from .watched_buffer import BufferChange

    Numbers = numpy.typing.NDArray[numpy.int64]

__all__ = ["Hearing"]

_FORGETS = frozenset({InputCleared, ErrorEvent, effects.TellLag})
_MATTERS = _FORGETS | {InputCommitted, ItemDeleted, OverlapDecision, ResponseDone, SessionUpdated}
"""All that may change what is to be heard, beside what the buffer tells."""


def _of(piece: AppendPiece) -> Numbers | None:
    """The numbers in a piece without what was added to it; None: nobody said it."""
    audio = piece.audio
    if audio is None or piece.kind != "audio":
        return None
    data = audio.data[: len(audio.data) - 4 * piece.padding]
    if data.count(0) == len(data):
        return None
    return numbers_of(data)


@dataclass(slots=True)
class Hearing:
    """The user's sound on its way.

    Attributes:
        traceable: every sample carries its number.
        dropped: stretches that the overlap policy dropped.
        kept: what the buffer took since something was dropped in the open; only at rest somebody
            asks which samples that was.
        heard: what the stage took, whenever that was, and silence that a commit left out.
    """

    traceable: bool = False
    dropped: list[tuple[int, int]] = field(default_factory=list)
    kept: list[AppendPiece] = field(default_factory=list)
    heard: list[Numbers] = field(default_factory=list)
    _last: dict[int, int] = field(default_factory=dict)
    _looked_at: Step | None = None
    _taken: Numbers | None = None
    _cleared: bool = False
    _short: bool = False

    def taken_in(self, step: Step) -> Numbers | None:
        """What of the user the stage took with this step; None: nothing."""
        if self._looked_at is not step:
            self._looked_at, self._taken = step, self._taken_in(step)
        return self._taken

    def _taken_in(self, step: Step) -> Numbers | None:
        item, planned = step.item, step.life.planned
        if not self.traceable or planned is None or type(item) is not inputs.UnitSubmitted:
            return None
        unit = step.life.units.get(item.op)
        taken = item.fault is None and unit is not None and unit.epoch == step.before.epoch
        if not taken or step.before.phase != "open":
            return None
        return _of(planned.unit)

    def last(self, epoch: int) -> int:
        """The newest number heard in an epoch; -1: none."""
        return self._last.get(epoch, -1)

    def entered(self, changes: Iterable[BufferChange]) -> None:
        """The buffer took something in."""
        for change in changes:
            if not self.traceable:
                return
            if change.kind == "added" and change.piece is not None:
                self.kept.append(change.piece)
            elif change.kind == "cleared":
                self._cleared = True
            elif change.kind == "sealed" and change.piece is None and change.expected:
                # Nothing but silence was left: it ends where the turn ends.
                self.heard.append(numbers_of(change.expected))

    def _drops_acknowledgement(self, step: Step) -> bool:
        """Whether speech over an answer was so short that it was only a sign of attention."""
        cleared, self._cleared = self._cleared, False
        was_short = self._short
        for decision in step.tells(OverlapDecision):
            total = decision.metadata["overlap_speech_ms"]
            self._short = 0 < total <= step.after.config.overlap_short_ack_ms
        # A piece that holds all of it and the silence behind is told and dropped in one step.
        if not cleared or not (was_short or self._short):
            return False
        self._short = False
        return True

    def take(self, step: Step) -> None:
        """A step agrees with all laws."""
        if not self.traceable:
            return
        kind = type(step.item)
        if kind is inputs.UnitSubmitted:
            numbers = self.taken_in(step)
            if numbers is not None:
                self.heard.append(numbers)
                self._last[step.before.epoch] = int(numbers[-1])
        elif kind is inputs.AudioDecoded:
            self._take_decision(step)
        elif isinstance(step.command, CreateItem):
            # Sound of another kind may lie among it now.
            self.traceable = False
            return
        quiet = _MATTERS.isdisjoint(step.kinds) and not self._cleared
        if quiet and step.after.phase == "open":
            return
        if self._resamples(step):
            self.traceable = False
        elif self._drops_acknowledgement(step) or self._forgets(step):
            self.kept.clear()

    @staticmethod
    def _resamples(step: Step) -> bool:
        if SessionUpdated not in step.kinds:
            return False
        rate = step.after.config.input_sample_rate_hz
        return rate not in (None, step.state.capabilities.input_sample_rate_hz)

    def _take_decision(self, step: Step) -> None:
        item = step.item
        if type(item) is not inputs.AudioDecoded or item.audio is None:
            return
        for decision in step.tells(OverlapDecision):
            kept = decision.metadata.get("buffer_audio")
            # Silence may yet become the beginning of an utterance.
            if not kept and decision.reason != "silence_or_noise":
                numbers = numbers_of(item.audio.data)
                self.dropped.append((int(numbers[0]), int(numbers[-1])))

    @staticmethod
    def _forgets(step: Step) -> bool:
        """Whether something was dropped that its client knows of."""
        if step.after.phase != "open" or not _FORGETS.isdisjoint(step.kinds):
            return True
        # What was to be answered goes with its response.
        if any(each.response.status != "completed" for each in step.tells(ResponseDone)):
            return True
        # Nor is an item heard that its client deleted before it was answered.
        waited = step.before.retained_items
        if waited and any(each.item_id in waited for each in step.tells(ItemDeleted)):
            return True
        flags = ("overlap_ack", "is_speech")
        return any(
            name in (event.event or {}) for event in step.tells(InputCommitted) for name in flags
        )

    def lost(self, state: SessionState) -> Numbers | None:
        """What was kept and is neither heard nor waiting; None: that cannot be known."""
        buffer = state.model_state.audio_buffer
        if not self.traceable or not self.kept or not isinstance(buffer, WatchedBuffer):
            return None
        if not state.open:
            return None
        turn = state.turn_input
        waiting = [_of(each.piece) for each in (*turn.retained, *turn.early)]
        waiting += [numbers_of(buffer.waiting)]
        waiting += [numbers_of(each.data) for each in buffer.reserved]
        kept = _joined([each for each in map(_of, self.kept) if each is not None])
        if not len(kept):
            return None
        there = numpy.zeros(int(kept.max()) + 1, bool)
        for numbers in (*self.heard, *waiting):
            if numbers is not None:
                there[numbers[numbers < len(there)]] = True
        return kept[~there[kept]]


def _joined(parts: Sequence[Numbers]) -> Numbers:
    return numpy.concatenate(parts) if parts else numpy.zeros(0, numpy.int64)
