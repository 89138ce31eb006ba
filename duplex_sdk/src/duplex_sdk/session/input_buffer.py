"""The plugin's buffer together with the bytes it holds: every byte in it is accounted for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from duplex_sdk.plugin import AppendPiece, PcmReservation

from .preroll import PreRoll
from .reservations import ByteLedger, Reservation
from .turn_input import RetainedPiece

if TYPE_CHECKING:
    from duplex_sdk.audio import PcmChunk
    from duplex_sdk.plugin import PcmAppendBuffer

__all__ = ["InputBuffer", "TakenUnit"]


class TakenUnit(msgspec.Struct, frozen=True):
    """A unit taken out of the buffer, with the bytes it occupies."""

    piece: AppendPiece
    reservation: PcmReservation
    held: Reservation


class InputBuffer:
    """Audio on its way to becoming units, and the rolling pre-roll in front of it.

    Args:
        buffer: the plugin's.
        ledger: where its bytes are counted.
        preroll_ms: how much of the silence before an utterance is kept.
    """

    __slots__ = ("_buffer", "_held", "_ledger", "_operations", "_preroll", "_preroll_held")

    def __init__(self, buffer: PcmAppendBuffer, ledger: ByteLedger, preroll_ms: int) -> None:
        self._buffer = buffer
        self._ledger = ledger
        self._preroll = PreRoll(preroll_ms)
        self._held = self._promise()
        self._preroll_held = self._promise()
        self._operations = 0

    def _promise(self) -> Reservation:
        promise = self._ledger.reserve(0)
        assert promise is not None, "nothing always fits"
        return promise

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait in the buffer."""
        return self._buffer.pending_byte_count

    @property
    def preroll_bytes(self) -> int:
        """Bytes of the silence in front of a coming utterance."""
        return self._preroll_held.amount

    def has_pending(self) -> bool:
        """Whether anything waits in the buffer or is reserved out of it."""
        return self._buffer.has_pending() or self._buffer.has_reserved()

    def set_preroll(self, length_ms: int) -> None:
        """Keep another length of silence from now on."""
        self._preroll.resize(length_ms)
        self._preroll_held.resize(self._preroll.byte_count)

    def skip(self, audio: PcmChunk) -> None:
        """Audio that nobody listens to: only its newest part is kept, as pre-roll."""
        self._preroll.push(audio)
        if not self._preroll_held.resize(self._preroll.byte_count):
            self._preroll.clear()
            self._preroll_held.resize(0)

    def take_preroll(self) -> PcmChunk | None:
        """The kept silence, which becomes the beginning of an utterance."""
        kept = self._preroll.take()
        self._preroll_held.resize(0)
        return kept

    def fits(self, byte_count: int) -> bool:
        """Whether so many more bytes may be taken in."""
        return byte_count <= self._ledger.room

    def add(self, piece: AppendPiece, *, emit: bool) -> list[TakenUnit]:
        """Take a piece in and, with ``emit``, all whole units out.

        The caller has asked ``fits`` first.
        """
        size = 0 if piece.audio is None else len(piece.audio.data)
        self._held.resize(self._held.amount + size)
        first = self._buffer.prepare_append(piece, operation_id=self._operation(), allow_emit=emit)
        units = []
        while first is not None:
            units.append(self._taken(first))
            if not self._buffer.has_pending():
                break
            first = self._buffer.prepare_append(
                AppendPiece(), operation_id=self._operation(), allow_emit=emit
            )
        self._settle()
        return units

    def drain(self) -> list[TakenUnit]:
        """All whole units that wait."""
        return self.add(AppendPiece(), emit=True)

    def seal(self) -> RetainedPiece | None:
        """End the input: all that is left, as one final piece; None when it is only silence.

        Earlier units must have settled, so that nothing can bring bytes back any more.
        """
        reservation = self._buffer.prepare_commit(operation_id=self._operation())
        unit = reservation.unit
        held = self._held.split(reservation.byte_count)
        reservation.commit()
        self._settle()
        if unit is None:
            held.release()
            return None
        return RetainedPiece(unit, held)

    def take_back(self, unit: TakenUnit) -> None:
        """A unit was not taken: it and all later ones wait again, still counted."""
        unit.reservation.rollback()

    def reclaim(self, held: Reservation) -> None:
        """Count bytes of a unit that was rolled back as waiting again."""
        self._held.absorb(held)

    def clear(self) -> None:
        """Forget everything, pre-roll included."""
        self._buffer.clear()
        self._held.resize(0)
        self._preroll.clear()
        self._preroll_held.resize(0)

    def _taken(self, reservation: PcmReservation) -> TakenUnit:
        unit = reservation.unit
        assert unit is not None, "a buffer hands out reservations of units only, commits apart"
        return TakenUnit(unit, reservation, self._held.split(reservation.byte_count))

    def _settle(self) -> None:
        self._held.resize(self._buffer.pending_byte_count)

    def _operation(self) -> str:
        self._operations += 1
        return f"unit-{self._operations}"
