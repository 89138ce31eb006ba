"""The buffer for models that take units of one length."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duplex_sdk.audio.chunk import SAMPLE_BYTES, BadAudioError, PcmChunk

from .buffer import AppendPiece, PcmAppendBuffer, PcmReservation, ReservationOrderError

if TYPE_CHECKING:
    from duplex_sdk.stage import Image

__all__ = ["UnitBuffer"]


class _Span(NamedTuple):
    """A stretch of bytes that share what is known of them.

    ``start`` walks through ``data``, so that cutting many units out of one long append copies
    each byte once.
    """

    data: bytes
    start: int
    is_speech: bool | None
    force_listen: bool
    images: tuple[Image, ...]

    @property
    def size(self) -> int:
        return len(self.data) - self.start

    def head(self, size: int) -> _Span:
        return self._replace(data=self.data[self.start : self.start + size], start=0)

    def rest(self, size: int) -> _Span:
        # A group of frames goes with the first bytes, once.
        return self._replace(start=self.start + size, images=())


class UnitBuffer(PcmAppendBuffer):
    """Cuts input into units of ``unit_samples`` at ``rate`` Hz.

    What is known of a stretch follows its bytes: a unit is speech when any part of it is, wants
    listening when any part does, and carries the newest group of frames that falls into it.
    """

    def __init__(self, unit_samples: int, rate: int) -> None:
        if unit_samples <= 0 or rate <= 0:
            raise ValueError("a unit has at least one sample, and a rate above zero")
        self._unit_bytes = unit_samples * SAMPLE_BYTES
        self._rate = rate
        # A list, which is empty nearly always: an empty deque takes 760 bytes per session.
        self._spans: list[_Span] = []
        self._pending = 0
        self._reserved: list[_UnitReservation] = []

    @property
    def pending_byte_count(self) -> int:
        """Bytes waiting, without those in reservations."""
        return self._pending

    def has_pending(self) -> bool:
        """Whether anything waits unreserved: bytes, frames or a wish to listen."""
        return bool(self._spans)

    def has_reserved(self) -> bool:
        """Whether a reservation has not ended."""
        return bool(self._reserved)

    def prepare_append(
        self, piece: AppendPiece, *, operation_id: str, allow_emit: bool
    ) -> PcmReservation | None:
        """Add a piece; take out one unit if one is whole and ``allow_emit``.

        Frames without audio leave by themselves when nothing waits, else with the next unit.

        Raises:
            ValueError: another sample rate than this buffer's.
            BadAudioError: the piece ends within a sample.
        """
        if piece.kind != "audio":
            return self._reserve(operation_id, piece, [])
        bare = bool(piece.images) and allow_emit and self._is_bare_image(piece)
        self._add(piece)
        if bare:
            return self._reserve(operation_id, piece, self._take_all())
        if not allow_emit or self._pending < self._unit_bytes:
            return None
        spans = self._take(self._unit_bytes)
        return self._reserve(operation_id, self._join(spans, final=False), spans)

    def prepare_commit(self, *, operation_id: str) -> PcmReservation:
        """Seal the input so far; see :meth:`PcmAppendBuffer.prepare_commit`."""
        spans = self._take_all()
        return self._reserve(operation_id, self._sealed(spans), spans)

    def flush(self) -> AppendPiece | None:
        """Take all that waits now, filled up to whole units, without a reservation."""
        return self._sealed(self._take_all())

    def clear(self) -> None:
        """Forget all bytes and what is known of them; end every reservation."""
        self._spans.clear()
        self._pending = 0
        for reservation in self._reserved:
            reservation.end()
        self._reserved.clear()

    def clear_force_listen(self) -> None:
        """Forget the wish to listen in what waits unreserved."""
        kept = (span._replace(force_listen=False) for span in self._spans)
        self._spans = [span for span in kept if span.size or span.images]

    def _is_bare_image(self, piece: AppendPiece) -> bool:
        return bool(piece.images) and not _size(piece) and not self._spans

    def _add(self, piece: AppendPiece) -> None:
        size = _size(piece)
        if piece.audio is not None and size:
            if piece.audio.rate != self._rate:
                raise ValueError(
                    f"this input has {self._rate} Hz, the new piece {piece.audio.rate} Hz"
                )
            if size % SAMPLE_BYTES:
                raise BadAudioError(f"{size} bytes are no whole number of float32 samples")
        elif not (piece.images or piece.force_listen):
            return
        data = b"" if piece.audio is None else piece.audio.data
        self._spans.append(_Span(data, 0, piece.is_speech, piece.force_listen, piece.images))
        self._pending += size

    def _take(self, size: int) -> list[_Span]:
        taken: list[_Span] = []
        self._pending -= size
        while size:
            span = self._spans.pop(0)
            if span.size > size:
                taken.append(span.head(size))
                self._spans.insert(0, span.rest(size))
                return taken
            size -= span.size
            taken.append(span)
        return taken

    def _take_all(self) -> list[_Span]:
        spans = list(self._spans)
        self._spans.clear()
        self._pending = 0
        return spans

    def _sealed(self, spans: list[_Span]) -> AppendPiece | None:
        if any(span.images or (span.size and span.is_speech is not False) for span in spans):
            return self._join(spans, final=True)
        return None

    def _join(self, spans: list[_Span], *, final: bool) -> AppendPiece:
        parts: list[bytes] = []
        is_speech: bool | None = None
        force_listen = False
        images: tuple[Image, ...] = ()
        for span in spans:
            if span.size:
                parts.append(span.data[span.start :] if span.start else span.data)
                if span.is_speech is not None:
                    # Speech if any part is; None only when no part was listened to.
                    is_speech = is_speech or span.is_speech
            force_listen = force_listen or span.force_listen
            images = span.images or images
        data = b"".join(parts)
        missing = -len(data) % self._unit_bytes
        return AppendPiece(
            audio=PcmChunk(data + bytes(missing), self._rate) if data else None,
            is_speech=is_speech,
            force_listen=force_listen,
            images=images,
            padding=missing // SAMPLE_BYTES,
            final=final,
        )

    def _reserve(
        self, operation_id: str, unit: AppendPiece | None, spans: list[_Span]
    ) -> _UnitReservation:
        reservation = _UnitReservation(self, operation_id, unit, spans)
        self._reserved.append(reservation)
        return reservation

    def commit_reservation(self, reservation: _UnitReservation) -> None:
        """Let go of the oldest reservation for good."""
        if self._reserved[0] is not reservation:
            raise ReservationOrderError(
                f"unit of {reservation.operation_id!r} was taken before an older one"
            )
        self._reserved.pop(0).end()

    def rollback_reservation(self, reservation: _UnitReservation) -> None:
        """Put a reservation and all later ones back in front of what waits."""
        index = self._reserved.index(reservation)
        undone = self._reserved[index:]
        del self._reserved[index:]
        for each in reversed(undone):
            self._spans[:0] = each.spans
            self._pending += each.byte_count
            each.end()


class _UnitReservation(PcmReservation):
    """A unit of a :class:`UnitBuffer`."""

    __slots__ = ("_active", "_buffer", "_byte_count", "_operation_id", "_unit", "spans")

    def __init__(
        self,
        buffer: UnitBuffer,
        operation_id: str,
        unit: AppendPiece | None,
        spans: list[_Span],
    ) -> None:
        self._buffer = buffer
        self._operation_id = operation_id
        self._unit = unit
        self._byte_count = sum([len(span.data) - span.start for span in spans])
        self._active = True
        self.spans = spans

    @property
    def operation_id(self) -> str:
        return self._operation_id

    @property
    def unit(self) -> AppendPiece | None:
        return self._unit

    @property
    def active(self) -> bool:
        return self._active

    @property
    def byte_count(self) -> int:
        return self._byte_count

    def commit(self) -> None:
        if self._active:
            self._buffer.commit_reservation(self)

    def rollback(self) -> None:
        if self._active:
            self._buffer.rollback_reservation(self)

    def end(self) -> None:
        """Mark it ended and let its bytes go."""
        self._active = False
        self.spans = []


def _size(piece: AppendPiece) -> int:
    return 0 if piece.audio is None else len(piece.audio.data)
