"""Numbering of appends, in two phases: prepared before the work, committed once it was accepted."""

from __future__ import annotations

import msgspec

from duplex_sdk.errors import DuplexError
from duplex_sdk.plugin import DuplexFence, DuplexFenceMismatchError

__all__ = ["AppendReservation", "AppendSequence", "StaleAppendError"]


class StaleAppendError(DuplexError):
    """Another append or another epoch came between preparing and committing."""


class AppendReservation(msgspec.Struct, frozen=True, gc=False):
    """The numbers an append will have if nothing comes between.

    Attributes:
        fence: what the append is bound to.
        seq: 1, 2, 3, ... in its epoch.
        turn_seq: 1, 2, 3, ... in its turn.
        base: how often the sequence had moved when it was prepared.
    """

    fence: DuplexFence
    seq: int
    turn_seq: int
    base: int


class AppendSequence:
    """Which fence is accepted, and how many appends were accepted under it."""

    __slots__ = ("_accepted", "_last", "_moves", "_seq", "_turn_seq")

    def __init__(self, session_id: str) -> None:
        self._accepted = DuplexFence(session_id)
        self._seq = 0
        self._turn_seq = 0
        self._last: DuplexFence | None = None
        self._moves = 0

    @property
    def accepted_fence(self) -> DuplexFence:
        """The newest fence accepted; never goes back."""
        return self._accepted

    @property
    def seq(self) -> int:
        """Appends accepted in the accepted epoch."""
        return self._seq

    @property
    def turn_seq(self) -> int:
        """Appends accepted in the turn of the last one."""
        return self._turn_seq

    def accept_fence(self, fence: DuplexFence) -> None:
        """Move on to a fence; a new epoch starts the numbering anew.

        Raises:
            DuplexFenceMismatchError: another session's, or older than the accepted one.
        """
        self._check(fence)
        if fence.epoch != self._accepted.epoch:
            self._seq = 0
            self._turn_seq = 0
            self._last = None
        if fence != self._accepted:
            self._moves += 1
        self._accepted = fence

    def prepare(self, fence: DuplexFence) -> AppendReservation:
        """Work out the next append's numbers; changes nothing.

        Raises:
            DuplexFenceMismatchError: as for ``accept_fence``.
        """
        self._check(fence)
        same_epoch = fence.epoch == self._accepted.epoch
        same_turn = same_epoch and self._last == fence
        return AppendReservation(
            fence,
            seq=(self._seq if same_epoch else 0) + 1,
            turn_seq=(self._turn_seq if same_turn else 0) + 1,
            base=self._moves,
        )

    def commit(self, reservation: AppendReservation) -> None:
        """The append was accepted: its numbers are taken.

        Raises:
            StaleAppendError: something came between; nothing changed.
        """
        if reservation.base != self._moves:
            raise StaleAppendError(f"append {reservation.seq} was prepared on an older state")
        self.accept_fence(reservation.fence)
        self._seq = reservation.seq
        self._turn_seq = reservation.turn_seq
        self._last = reservation.fence
        self._moves += 1

    def _check(self, fence: DuplexFence) -> None:
        accepted = self._accepted
        if fence is accepted:
            return
        if fence.session_id != accepted.session_id or fence.position < accepted.position:
            raise DuplexFenceMismatchError(accepted, fence)
