from __future__ import annotations

import numpy
from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import AppendPiece, PcmReservation, UnitBuffer
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

RATE = 16_000
UNIT = 5


class BufferMachine(RuleBasedStateMachine):
    """Every sample is numbered, so that any loss, repeat or change of order shows.

    The model beside the buffer is two plain lists: what waits, and what each open reservation
    holds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.buffer = UnitBuffer(UNIT, RATE)
        self.next_sample = 1
        self.waiting: list[int] = []
        self.open: list[tuple[PcmReservation, list[int]]] = []
        self.submitted: list[int] = []

    @rule(count=st.integers(0, 3 * UNIT), emit=st.booleans(), speech=st.sampled_from([True, None]))
    def append(self, count: int, emit: bool, speech: bool | None) -> None:
        numbers = list(range(self.next_sample, self.next_sample + count))
        self.next_sample += count
        self.waiting += numbers
        audio = PcmChunk(numpy.array(numbers, "<f4").tobytes(), RATE)
        self._take(AppendPiece(audio=audio, is_speech=speech), emit)

    @rule()
    def take_another(self) -> None:
        self._take(AppendPiece(), True)

    def _take(self, piece: AppendPiece, emit: bool) -> None:
        reservation = self.buffer.prepare_append(piece, operation_id="op", allow_emit=emit)
        assert (reservation is not None) == (emit and len(self.waiting) >= UNIT)
        if reservation is not None:
            taken, self.waiting = self.waiting[:UNIT], self.waiting[UNIT:]
            self._check_unit(reservation, taken)
            self.open.append((reservation, taken))

    @rule()
    def seal(self) -> None:
        reservation = self.buffer.prepare_commit(operation_id="commit")
        taken, self.waiting = self.waiting, []
        if taken:
            self._check_unit(reservation, taken)
            assert reservation.unit is not None
            assert reservation.unit.final
        else:
            assert reservation.unit is None
        self.open.append((reservation, taken))

    def _check_unit(self, reservation: PcmReservation, taken: list[int]) -> None:
        unit = reservation.unit
        assert unit is not None
        assert unit.audio is not None
        numbers = unit.audio.numpy().tolist()
        assert len(numbers) % UNIT == 0
        assert numbers == taken + [0] * unit.padding
        assert unit.padding < UNIT
        assert reservation.byte_count == 4 * len(taken)

    @precondition(lambda self: self.open)
    @rule()
    def commit_oldest(self) -> None:
        reservation, taken = self.open.pop(0)
        reservation.commit()
        self.submitted += taken

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def roll_back_any(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.open) - 1))
        undone = self.open[index:]
        del self.open[index:]
        undone[0][0].rollback()
        self.waiting = [number for _, taken in undone for number in taken] + self.waiting
        assert not any(reservation.active for reservation, _ in undone)

    @rule()
    def clear(self) -> None:
        self.buffer.clear()
        assert not any(reservation.active for reservation, _ in self.open)
        self.open, self.waiting = [], []

    @invariant()
    def bytes_are_counted(self) -> None:
        assert self.buffer.pending_byte_count == 4 * len(self.waiting)
        assert self.buffer.has_pending() == bool(self.waiting)
        assert self.buffer.has_reserved() == bool(self.open)

    @invariant()
    def nothing_is_submitted_twice_or_out_of_order(self) -> None:
        assert self.submitted == sorted(set(self.submitted))


TestBufferLaws = BufferMachine.TestCase
TestBufferLaws.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
