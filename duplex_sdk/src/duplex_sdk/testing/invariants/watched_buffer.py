"""A plugin's buffer under watch: beside it runs a model that is nothing but bytes in order."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from duplex_sdk.plugin import PcmAppendBuffer, PcmReservation, ReservationOrderError

if TYPE_CHECKING:
    from duplex_sdk.plugin import AppendPiece, DuplexModelPlugin, DuplexModelSessionState

__all__ = ["BufferChange", "WatchedBuffer", "WatchedReservation", "with_watched_buffer"]

Kind = Literal["added", "cut", "sealed", "committed", "rolled back", "cleared"]


@dataclass(slots=True)
class BufferChange:
    """One thing that happened to a buffer, as a law sees it.

    Attributes:
        kind: what.
        piece: what was added, cut or sealed.
        expected: the bytes that should lie in it, or wait, by the model.
        seen: those that do.
        waiting: bytes that the buffer says are waiting, and those of the model.
        ended: how often the reservation has ended by now; None: there is none.
        order: whether it was the oldest one; None: not asked.
        refused: whether a newer one was refused to be committed before it; None: not tried.
        again: it follows a rollback.
    """

    kind: Kind
    piece: AppendPiece | None = None
    expected: bytes = b""
    seen: bytes = b""
    waiting: tuple[int, int] = (0, 0)
    ended: int | None = None
    order: bool | None = None
    refused: bool | None = None
    again: bool = False


class WatchedBuffer(PcmAppendBuffer):
    """Does what the buffer of a plugin does, and writes down what happened.

    Args:
        buffer: the plugin's.

    Attributes:
        changes: what happened since somebody emptied the list.
        waiting: by the model, the bytes that wait unreserved.
        reserved: the reservations that have not ended, the oldest first.
    """

    def __init__(self, buffer: PcmAppendBuffer) -> None:
        self._buffer = buffer
        self._rolled_back = False
        self.changes: list[BufferChange] = []
        self.waiting = b""
        self.reserved: list[WatchedReservation] = []

    @property
    def pending_byte_count(self) -> int:
        """As the buffer says."""
        return self._buffer.pending_byte_count

    def has_pending(self) -> bool:
        """As the buffer says."""
        return self._buffer.has_pending()

    def has_reserved(self) -> bool:
        """As the buffer says."""
        return self._buffer.has_reserved()

    def prepare_append(
        self, piece: AppendPiece, *, operation_id: str, allow_emit: bool
    ) -> PcmReservation | None:
        """Add a piece, and take out one unit if one is whole."""
        inner = self._buffer.prepare_append(piece, operation_id=operation_id, allow_emit=allow_emit)
        if piece.audio is not None and piece.audio.data:
            self.waiting += piece.audio.data
            if inner is None:
                self._note(BufferChange("added", piece))
                return None
            self.changes.append(BufferChange("added", piece))
        return None if inner is None else self._cut("cut", inner)

    def prepare_commit(self, *, operation_id: str) -> PcmReservation:
        """Seal the input so far."""
        return self._cut("sealed", self._buffer.prepare_commit(operation_id=operation_id))

    def flush(self) -> AppendPiece | None:
        """Take all that waits now."""
        self.waiting = b""
        return self._buffer.flush()

    def clear(self) -> None:
        """Forget everything."""
        self._buffer.clear()
        self.waiting = b""
        gone, self.reserved = self.reserved, []
        self._note(BufferChange("cleared"))
        for each in gone:
            each.ends += 1
            self._note(BufferChange("cleared", ended=each.ends))
        self._rolled_back = False

    def clear_force_listen(self) -> None:
        """Forget the wish to listen in what waits unreserved."""
        self._buffer.clear_force_listen()

    def _cut(self, kind: Kind, inner: PcmReservation) -> WatchedReservation:
        size, unit = inner.byte_count, inner.unit
        expected, self.waiting = self.waiting[:size], self.waiting[size:]
        made = WatchedReservation(self, inner, expected)
        self.reserved.append(made)
        change = BufferChange(kind, unit, expected, again=self._rolled_back)
        if unit is None or unit.audio is None:
            change.seen = expected
        else:
            data = unit.audio.data
            change.seen = data[: len(data) - 4 * unit.padding]
        if len(self.reserved) > 1:
            change.refused = made.is_refused()
        self._note(change)
        return made

    def committed(self, reservation: WatchedReservation) -> None:
        """A reservation was let go of."""
        oldest = bool(self.reserved) and self.reserved[0] is reservation
        self.reserved = [each for each in self.reserved if each is not reservation]
        reservation.ends += 1
        self._note(BufferChange("committed", ended=reservation.ends, order=oldest))

    def rolled_back(self, reservation: WatchedReservation) -> None:
        """It and all later ones wait again."""
        place = self.reserved.index(reservation)
        undone, self.reserved = self.reserved[place:], self.reserved[:place]
        self.waiting = b"".join(each.data for each in undone) + self.waiting
        self._rolled_back = True
        for each in undone:
            each.ends += 1
            self._note(BufferChange("rolled back", ended=each.ends))

    def _note(self, change: BufferChange) -> None:
        change.waiting = (self._buffer.pending_byte_count, len(self.waiting))
        self.changes.append(change)


class WatchedReservation(PcmReservation):
    """A reservation of a watched buffer.

    Attributes:
        data: the bytes it holds, by the model.
        ends: how often it has ended.
    """

    def __init__(self, buffer: WatchedBuffer, inner: PcmReservation, data: bytes) -> None:
        self._buffer = buffer
        self._inner = inner
        self.data = data
        self.ends = 0

    @property
    def operation_id(self) -> str:
        """Whose it is."""
        return self._inner.operation_id

    @property
    def unit(self) -> AppendPiece | None:
        """The unit."""
        return self._inner.unit

    @property
    def active(self) -> bool:
        """Whether it has not ended yet."""
        return self._inner.active

    @property
    def byte_count(self) -> int:
        """Bytes of input it holds."""
        return self._inner.byte_count

    def is_refused(self) -> bool:
        """Whether it cannot be committed before an older one; nothing happens."""
        try:
            self._inner.commit()
        except ReservationOrderError:
            return self._inner.active
        return False

    def commit(self) -> None:
        """The unit was taken."""
        was_active = self._inner.active
        self._inner.commit()
        if was_active:
            self._buffer.committed(self)

    def rollback(self) -> None:
        """The unit was not taken."""
        was_active = self._inner.active
        self._inner.rollback()
        if was_active:
            self._buffer.rolled_back(self)


def with_watched_buffer(plugin: DuplexModelPlugin) -> DuplexModelPlugin:
    """A plugin like this one whose sessions have watched buffers; this one stays as it is."""
    own = copy(plugin)

    def make() -> DuplexModelSessionState:
        state = plugin.create_session_state()
        state.audio_buffer = WatchedBuffer(state.audio_buffer)
        return state

    vars(own)["create_session_state"] = make
    return own
