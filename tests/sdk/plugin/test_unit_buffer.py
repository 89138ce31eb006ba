from __future__ import annotations

import numpy
import pytest
from duplex_sdk.audio import BadAudioError, PcmChunk
from duplex_sdk.plugin import AppendPiece, PcmReservation, ReservationOrderError, UnitBuffer
from duplex_sdk.stage import Image

RATE = 16_000
UNIT = 4


def piece(*samples: float, **known: object) -> AppendPiece:
    audio = PcmChunk(numpy.array(samples, "<f4").tobytes(), RATE)
    return AppendPiece(audio=audio, **known)  # type: ignore[arg-type]


def samples(unit: AppendPiece | None) -> list[float]:
    assert unit is not None
    assert unit.audio is not None
    return unit.audio.numpy().tolist()


def append(buffer: UnitBuffer, added: AppendPiece, *, emit: bool = True) -> PcmReservation | None:
    return buffer.prepare_append(added, operation_id="op", allow_emit=emit)


def taken(buffer: UnitBuffer, added: AppendPiece) -> PcmReservation:
    reservation = append(buffer, added)
    assert reservation is not None
    return reservation


@pytest.fixture
def buffer() -> UnitBuffer:
    return UnitBuffer(UNIT, RATE)


def test_less_than_a_unit_waits(buffer: UnitBuffer) -> None:
    assert append(buffer, piece(1, 2, 3)) is None
    assert buffer.pending_byte_count == 12
    assert buffer.has_pending()


def test_a_whole_unit_comes_out_and_the_rest_waits(buffer: UnitBuffer) -> None:
    append(buffer, piece(1, 2, 3))
    reservation = taken(buffer, piece(4, 5))
    assert samples(reservation.unit) == [1, 2, 3, 4]
    assert reservation.byte_count == 16
    assert buffer.pending_byte_count == 4
    assert buffer.has_reserved()


def test_an_append_of_many_units_gives_them_one_by_one(buffer: UnitBuffer) -> None:
    first = taken(buffer, piece(*range(10)))
    second = taken(buffer, AppendPiece())
    assert append(buffer, AppendPiece()) is None
    assert [samples(each.unit) for each in (first, second)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_nothing_comes_out_while_emitting_is_not_allowed(buffer: UnitBuffer) -> None:
    assert append(buffer, piece(*range(9)), emit=False) is None
    assert buffer.pending_byte_count == 36


def test_a_commit_fills_up_with_zeros_and_says_how_many(buffer: UnitBuffer) -> None:
    append(buffer, piece(1, 2, 3, 4, 5), emit=False)
    reservation = buffer.prepare_commit(operation_id="commit")
    unit = reservation.unit
    assert unit is not None
    assert samples(unit) == [1, 2, 3, 4, 5, 0, 0, 0]
    assert (unit.padding, unit.final, reservation.byte_count) == (3, True, 20)
    assert buffer.pending_byte_count == 0


def test_a_commit_of_whole_units_needs_no_padding(buffer: UnitBuffer) -> None:
    append(buffer, piece(1, 2, 3, 4), emit=False)
    unit = buffer.prepare_commit(operation_id="commit").unit
    assert unit is not None
    assert unit.padding == 0


def test_a_commit_leaves_earlier_reservations_alone(buffer: UnitBuffer) -> None:
    earlier = taken(buffer, piece(1, 2, 3, 4, 5))
    commit = buffer.prepare_commit(operation_id="commit")
    assert earlier.active
    earlier.commit()
    commit.commit()
    assert not buffer.has_reserved()


def test_a_commit_of_nothing_has_no_unit(buffer: UnitBuffer) -> None:
    reservation = buffer.prepare_commit(operation_id="commit")
    assert reservation.unit is None
    assert reservation.byte_count == 0
    assert reservation.active


def test_a_commit_of_silence_has_no_unit_and_holds_the_silence(buffer: UnitBuffer) -> None:
    append(buffer, piece(1, 2, is_speech=False))
    reservation = buffer.prepare_commit(operation_id="commit")
    assert reservation.unit is None
    assert reservation.byte_count == 8
    reservation.rollback()
    assert buffer.pending_byte_count == 8


def test_silence_beside_speech_is_part_of_the_turn(buffer: UnitBuffer) -> None:
    append(buffer, piece(1, is_speech=True))
    append(buffer, piece(2, is_speech=False))
    assert samples(buffer.prepare_commit(operation_id="commit").unit) == [1, 2, 0, 0]


def test_flush_takes_everything_without_a_reservation(buffer: UnitBuffer) -> None:
    append(buffer, piece(1, 2), emit=False)
    assert samples(buffer.flush()) == [1, 2, 0, 0]
    assert not buffer.has_reserved()
    assert buffer.flush() is None


def test_a_rollback_puts_bytes_in_front_of_newer_ones(buffer: UnitBuffer) -> None:
    reservation = taken(buffer, piece(1, 2, 3, 4, 5))
    append(buffer, piece(6), emit=False)
    reservation.rollback()
    assert not reservation.active
    assert samples(buffer.flush()) == [1, 2, 3, 4, 5, 6, 0, 0]


def test_a_rollback_takes_later_reservations_back_too(buffer: UnitBuffer) -> None:
    first = taken(buffer, piece(*range(1, 13)))
    second = taken(buffer, AppendPiece())
    third = taken(buffer, AppendPiece())
    second.rollback()
    assert [each.active for each in (first, second, third)] == [True, False, False]
    assert samples(buffer.flush()) == [5, 6, 7, 8, 9, 10, 11, 12]


def test_what_is_known_returns_with_the_bytes(buffer: UnitBuffer) -> None:
    frame = (Image("image/jpeg", b"1"),)
    reservation = taken(buffer, piece(1, 2, 3, 4, is_speech=True, force_listen=True, images=frame))
    reservation.rollback()
    unit = taken(buffer, AppendPiece()).unit
    assert unit is not None
    assert (unit.is_speech, unit.force_listen, unit.images) == (True, True, frame)


def test_a_unit_cannot_be_committed_before_an_older_one(buffer: UnitBuffer) -> None:
    first = taken(buffer, piece(*range(8)))
    second = taken(buffer, AppendPiece())
    with pytest.raises(ReservationOrderError):
        second.commit()
    assert second.active
    first.commit()
    second.commit()
    assert not buffer.has_reserved()


def test_ending_a_reservation_twice_does_nothing(buffer: UnitBuffer) -> None:
    reservation = taken(buffer, piece(1, 2, 3, 4))
    reservation.commit()
    reservation.rollback()
    reservation.commit()
    assert buffer.pending_byte_count == 0


def test_clear_forgets_everything(buffer: UnitBuffer) -> None:
    reservation = taken(buffer, piece(1, 2, 3, 4, 5, force_listen=True))
    buffer.clear()
    assert not reservation.active
    reservation.rollback()
    assert (buffer.pending_byte_count, buffer.has_pending(), buffer.has_reserved()) == (
        0,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("verdicts", "joined"),
    [
        ((True, False), True),
        ((False, None), False),
        ((None, None), None),
        ((None, True), True),
    ],
)
def test_a_unit_is_speech_when_any_part_is(
    buffer: UnitBuffer, verdicts: tuple[bool | None, bool | None], joined: bool | None
) -> None:
    append(buffer, piece(1, 2, is_speech=verdicts[0]))
    unit = taken(buffer, piece(3, 4, is_speech=verdicts[1])).unit
    assert unit is not None
    assert unit.is_speech is joined


def test_force_listen_follows_its_bytes(buffer: UnitBuffer) -> None:
    first = taken(buffer, piece(*range(6), force_listen=True))
    second = taken(buffer, piece(6, 7))
    third = taken(buffer, piece(8, 9, 10, 11))
    wishes = [each.unit.force_listen for each in (first, second, third) if each.unit]
    assert wishes == [True, True, False]


def test_the_wish_to_listen_can_be_dropped_from_what_waits(buffer: UnitBuffer) -> None:
    append(buffer, piece(1, 2, force_listen=True))
    buffer.clear_force_listen()
    unit = taken(buffer, piece(3, 4)).unit
    assert unit is not None
    assert not unit.force_listen


def test_frames_go_with_the_first_bytes_they_came_with(buffer: UnitBuffer) -> None:
    frame = (Image("image/jpeg", b"1"),)
    first = taken(buffer, piece(*range(6), images=frame))
    second = taken(buffer, piece(6, 7))
    groups = [each.unit.images for each in (first, second) if each.unit]
    assert groups == [frame, ()]


def test_a_unit_carries_the_newest_group_of_frames(buffer: UnitBuffer) -> None:
    old, new = (Image("image/jpeg", b"1"),), (Image("image/jpeg", b"2"),)
    append(buffer, piece(1, 2, images=old))
    unit = taken(buffer, piece(3, 4, images=new)).unit
    assert unit is not None
    assert unit.images == new


def test_frames_without_audio_pass_by_themselves_when_nothing_waits(buffer: UnitBuffer) -> None:
    alone = AppendPiece(images=(Image("image/jpeg", b"1"),))
    reservation = taken(buffer, alone)
    assert reservation.unit is not None
    assert reservation.unit.images == alone.images
    assert reservation.unit.audio is None
    assert reservation.byte_count == 0
    reservation.rollback()
    assert buffer.has_pending()


def test_frames_without_audio_wait_for_the_unit_under_way(buffer: UnitBuffer) -> None:
    frames = (Image("image/jpeg", b"1"),)
    append(buffer, piece(1, 2))
    assert append(buffer, AppendPiece(images=frames)) is None
    unit = taken(buffer, piece(3, 4)).unit
    assert unit is not None
    assert unit.images == frames


@pytest.mark.parametrize("kind", ["conversation", "discard"])
def test_what_is_no_audio_passes_through(buffer: UnitBuffer, kind: str) -> None:
    append(buffer, piece(1, 2))
    passing = AppendPiece(kind=kind)  # type: ignore[arg-type]
    reservation = taken(buffer, passing)
    assert reservation.unit is passing
    assert reservation.byte_count == 0
    assert buffer.pending_byte_count == 8


def test_another_sample_rate_is_refused_and_nothing_added(buffer: UnitBuffer) -> None:
    with pytest.raises(ValueError, match="16000 Hz, the new piece 8000 Hz"):
        append(buffer, AppendPiece(audio=PcmChunk.silence(4, 8_000)))
    assert not buffer.has_pending()


def test_half_a_sample_is_refused(buffer: UnitBuffer) -> None:
    with pytest.raises(BadAudioError):
        append(buffer, AppendPiece(audio=PcmChunk(b"abc", RATE)))


@pytest.mark.parametrize(("unit", "rate"), [(0, RATE), (1, 0), (-1, RATE)])
def test_a_unit_of_nothing_is_refused(unit: int, rate: int) -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        UnitBuffer(unit, rate)
