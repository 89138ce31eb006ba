"""Laws of the buffer that cuts a session's input into units."""

from __future__ import annotations

import numpy as np

from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import AppendPiece, PcmAppendBuffer

from .breach import breach, require
from .subject import Subject

__all__ = ["BufferLaws"]

PIECES = (0.3, 0.9, 1.7, 0.05, 0.8)
"""Appends of the laws, in units: smaller than one, across a border, more than one at once."""

USE_OURS = "or use duplex_sdk.plugin.UnitBuffer, which keeps these laws"


class BufferLaws:
    """No sample is lost, doubled or moved on its way to a unit."""

    def test_sessions_share_no_buffer(self, conformance: Subject) -> None:
        """Each session has a state and a buffer of its own."""
        one, other = (conformance.plugin.create_session_state() for _ in range(2))
        require(
            one is not other and one.audio_buffer is not other.audio_buffer,
            "create_session_state() gave two sessions the same state or buffer",
            "make a new DuplexModelSessionState with a new buffer in every call",
        )

    def test_units_hold_every_sample_in_order(self, conformance: Subject) -> None:
        """All units and the commit, padding aside, are the input."""
        buffer = _buffer(conformance)
        given, cut = _samples(conformance, sum(PIECES)), b""
        start = 0
        for size in PIECES:
            end = start + round(size * _unit(conformance)) * 4
            cut += _append(conformance, buffer, given[start:end])
            start = end
        cut += _committed(buffer)
        require(
            cut == given[:start],
            f"{start // 4} samples went in, {len(cut) // 4} came out, or in another order",
            f"cut units from the front and keep the rest, {USE_OURS}",
        )

    def test_pending_bytes_are_counted(self, conformance: Subject) -> None:
        """``pending_byte_count`` is what waits, without what is reserved."""
        buffer = _buffer(conformance)
        data = _samples(conformance, 0.5)
        held = buffer.prepare_append(
            _piece(conformance, data), operation_id="count", allow_emit=False
        )
        require(
            held is None and buffer.pending_byte_count == len(data) and buffer.has_pending(),
            f"{len(data)} bytes wait, the buffer counts {buffer.pending_byte_count}",
            f"count what was appended and not reserved: limits rest on it, {USE_OURS}",
        )

    def test_no_unit_leaves_while_none_may(self, conformance: Subject) -> None:
        """With ``allow_emit`` false input is only kept."""
        buffer = _buffer(conformance)
        data = _samples(conformance, 2.5)
        cut = buffer.prepare_append(
            _piece(conformance, data), operation_id="hold", allow_emit=False
        )
        require(
            cut is None,
            "a unit left although allow_emit was False",
            f"return None while allow_emit is False; the engine comes back, {USE_OURS}",
        )

    def test_a_unit_that_was_not_taken_goes_back(self, conformance: Subject) -> None:
        """A rollback puts the bytes where they were."""
        buffer = _buffer(conformance)
        data = _samples(conformance, 1.5)
        first = buffer.prepare_append(
            _piece(conformance, data), operation_id="taken", allow_emit=True
        )
        if first is None:
            breach(
                "a unit and a half was appended and no unit came",
                f"take out a unit as soon as one is whole, {USE_OURS}",
            )
        first.rollback()
        require(
            not first.active and buffer.pending_byte_count == len(data),
            f"after a rollback {buffer.pending_byte_count} of {len(data)} bytes wait",
            f"rollback() returns the bytes to the front of the buffer, {USE_OURS}",
        )
        rest = _append(conformance, buffer, b"") + _committed(buffer)
        require(
            rest == data,
            "after a rollback the units hold other samples than before",
            f"rollback() keeps the order: what came first is cut first, {USE_OURS}",
        )

    def test_a_cleared_buffer_is_empty(self, conformance: Subject) -> None:
        """``clear`` forgets everything and ends every reservation."""
        buffer = _buffer(conformance)
        held = buffer.prepare_append(
            _piece(conformance, _samples(conformance, 1.5)), operation_id="gone", allow_emit=True
        )
        buffer.clear()
        require(
            not buffer.pending_byte_count
            and not buffer.has_pending()
            and not buffer.has_reserved()
            and (held is None or not held.active),
            "after clear() something is still pending or reserved",
            f"drop the bytes and end the reservations in clear(), {USE_OURS}",
        )

    def test_a_foreign_rate_is_refused(self, conformance: Subject) -> None:
        """Audio at another rate is a ValueError, not noise for the model."""
        rate = conformance.capabilities.input_sample_rate_hz
        piece = AppendPiece(audio=PcmChunk.silence(rate, rate * 2))
        try:
            _buffer(conformance).prepare_append(piece, operation_id="rate", allow_emit=True)
        except ValueError:
            return
        breach(
            f"the buffer took audio at {rate * 2} Hz; the model's rate is {rate} Hz",
            f"raise ValueError in prepare_append when piece.audio.rate differs, {USE_OURS}",
        )


def _buffer(subject: Subject) -> PcmAppendBuffer:
    return subject.plugin.create_session_state().audio_buffer


def _unit(subject: Subject) -> int:
    known = subject.capabilities
    return known.unit_samples or known.input_sample_rate_hz // 10


def _samples(subject: Subject, units: float) -> bytes:
    """So many units of samples, no two of them alike and none of them zero."""
    count = round(units * _unit(subject)) + len(PIECES)
    return np.linspace(0.1, 0.9, count, dtype="<f4").tobytes()


def _piece(subject: Subject, data: bytes) -> AppendPiece:
    audio = PcmChunk(data, subject.capabilities.input_sample_rate_hz) if data else None
    return AppendPiece(audio=audio, is_speech=True)


def _append(subject: Subject, buffer: PcmAppendBuffer, data: bytes) -> bytes:
    """Append, and take every unit that is whole; what they hold."""
    taken, piece = b"", _piece(subject, data)
    while (cut := buffer.prepare_append(piece, operation_id="cut", allow_emit=True)) is not None:
        taken += _content(cut.unit)
        cut.commit()
        piece = AppendPiece()
    return taken


def _committed(buffer: PcmAppendBuffer) -> bytes:
    last = buffer.prepare_commit(operation_id="end")
    unit = last.unit
    require(
        unit is None or unit.final,
        "the unit of a commit is not final",
        f"set final=True on the unit of prepare_commit(), {USE_OURS}",
    )
    last.commit()
    return _content(unit)


def _content(unit: AppendPiece | None) -> bytes:
    if unit is None or unit.audio is None:
        return b""
    data = unit.audio.data
    return data[: len(data) - unit.padding * 4]
