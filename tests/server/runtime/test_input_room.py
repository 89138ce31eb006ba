from __future__ import annotations

import asyncio

import pytest
from duplex_server.runtime.input_room import PLACES_FOR_OTHERS, InputRoom, Room, RoomLimits
from patience import PATIENCE_S


@pytest.fixture
def room() -> InputRoom:
    return InputRoom(RoomLimits(input_bytes=1000, commands=100, turns=2))


def nothing() -> None:
    """Asks nobody."""


def publish(room: InputRoom, total: int = 0, **fields: int) -> None:
    room.publish(**{"total": total, "commands": 0, "turns": 0, **fields})


def test_limit_itself_fits_and_one_byte_more_does_not(room: InputRoom) -> None:
    assert room.room(1000) is Room.NOW
    publish(room, 400)
    assert room.room(600) is Room.NOW
    assert room.room(601) is Room.LATER


def test_more_than_the_limit_never_fits(room: InputRoom) -> None:
    assert room.room(1001) is Room.NEVER


def test_what_is_on_the_way_counts(room: InputRoom) -> None:
    assert room.send(700)
    assert room.room(400) is Room.LATER
    room.taken(700)
    assert room.room(400) is Room.NOW


def test_no_more_commands_may_be_on_the_way_than_may_wait() -> None:
    room = InputRoom(RoomLimits(input_bytes=1000, commands=2, turns=2))
    assert [room.send(1), room.send(1), room.send(1)] == [True, True, False]
    assert (room.on_the_way, room.pending_bytes) == (2, 2)
    room.unsend(1)
    assert (room.on_the_way, room.pending_bytes) == (1, 1)
    assert room.send(1)
    room.taken(1)
    assert room.send(1)


def test_held_input_is_not_worth_waiting_for(room: InputRoom) -> None:
    publish(room, 900, held=900)
    assert room.room(101) is Room.NEVER
    publish(room, 900, held=0)
    assert room.room(101) is Room.LATER


def test_last_places_are_for_other_commands_than_appends(room: InputRoom) -> None:
    publish(room, commands=100 - PLACES_FOR_OTHERS)
    assert room.room(1) is Room.LATER
    assert room.room(0) is Room.NOW
    publish(room, commands=100)
    assert room.room(0) is Room.LATER


def test_pending_turns_are_places_too(room: InputRoom) -> None:
    publish(room, turns=2)
    assert room.room(0, turn=True) is Room.LATER
    assert room.room(0) is Room.NOW


async def test_waiter_goes_on_when_there_is_room(room: InputRoom) -> None:
    publish(room, 1000, held=0)
    waiter = asyncio.create_task(room.wait(10, nothing))
    await asyncio.sleep(0)
    assert room.wants_held
    publish(room, 995, held=0)
    await asyncio.sleep(0.01)
    assert not waiter.done()
    publish(room, 500)
    assert await asyncio.wait_for(waiter, PATIENCE_S)


async def test_waiter_asks_what_is_held_and_learns_that_waiting_is_vain(room: InputRoom) -> None:
    publish(room, 1000)
    held = room.wait(10, lambda: publish(room, 1000, held=1000))
    assert not await asyncio.wait_for(held, PATIENCE_S)


async def test_end_of_the_session_lets_waiters_go(room: InputRoom) -> None:
    publish(room, 1000, held=0)
    waiter = asyncio.create_task(room.wait(10, nothing))
    await asyncio.sleep(0)
    room.close()
    assert not await asyncio.wait_for(waiter, PATIENCE_S)
