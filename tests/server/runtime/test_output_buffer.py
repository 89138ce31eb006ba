from __future__ import annotations

import asyncio
import threading

import pytest
from duplex_sdk.protocol.duplex import AudioDelta, SessionClosed, SessionHeartbeatAck
from duplex_server.runtime.output_buffer import (
    DuplexOutputBuffer,
    DuplexOutputOverflowError,
    OutputLimits,
)
from duplex_server.runtime.output_wakes import OutputWakes
from patience import PATIENCE_S


def note(number: int) -> SessionHeartbeatAck:
    return SessionHeartbeatAck(event_id=f"e{number}")


def audio(epoch: int = 0) -> AudioDelta:
    return AudioDelta(
        event_id="a",
        epoch=epoch,
        response_id="r",
        item_id="item_r",
        delta=bytes(480),
        format="pcm16",
        duration_ms=10.0,
    )


TERMINAL = SessionClosed(event_id="t", session_id="s", reason="bye")


async def test_events_come_in_order_and_the_terminal_last() -> None:
    buffer = DuplexOutputBuffer()
    for number in range(3):
        buffer.put(note(number))
    buffer.put(TERMINAL)
    assert not buffer.put(note(9))
    seen = [await buffer.get() for _ in range(5)]
    assert [event.event_id for event in seen if event is not None] == ["e0", "e1", "e2", "t"]
    assert seen[-1] is None


async def test_reader_is_woken_from_another_thread() -> None:
    buffer = DuplexOutputBuffer()
    reader = asyncio.create_task(buffer.get())
    await asyncio.sleep(0)
    threading.Thread(target=buffer.put, args=(note(1),)).start()
    assert await asyncio.wait_for(reader, PATIENCE_S) == note(1)


async def test_engine_wakes_readers_once_per_turn() -> None:
    loop = asyncio.get_running_loop()
    wakes = OutputWakes(loop)
    buffers = [DuplexOutputBuffer() for _ in range(3)]
    readers = [asyncio.create_task(buffer.get()) for buffer in buffers]
    await asyncio.sleep(0)
    for buffer in buffers:
        buffer.attach(wakes, lambda: None)
        buffer.put(note(1))
        buffer.put(note(2))
    assert not any(reader.done() for reader in readers)
    assert await asyncio.wait_for(asyncio.gather(*readers), PATIENCE_S) == [note(1)] * 3


async def test_second_reader_is_refused_and_a_cancelled_one_replaced() -> None:
    buffer = DuplexOutputBuffer()
    reader = asyncio.create_task(buffer.get())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError):
        await buffer.get()
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    buffer.put(note(1))
    assert await buffer.get() == note(1)


async def test_cancelled_audio_in_hand_is_no_longer_valid() -> None:
    buffer = DuplexOutputBuffer()
    for _ in range(3):
        buffer.put(audio())
    held = await buffer.get()
    assert held is not None
    assert buffer.is_valid(held)
    assert buffer.invalidate("r", 0) == 30.0
    with buffer.guard(held) as valid:
        assert not valid


async def test_delivered_audio_is_not_taken_back() -> None:
    buffer = DuplexOutputBuffer()
    buffer.put(audio())
    held = await buffer.get()
    assert held is not None
    with buffer.guard(held) as valid:
        assert valid
    assert buffer.invalidate("r", 0) == 0.0


async def test_audio_of_a_newer_epoch_stays() -> None:
    buffer = DuplexOutputBuffer()
    buffer.put(audio(epoch=2))
    assert buffer.invalidate("r", 1) == 0.0
    assert buffer.pending_events == 1


async def test_full_buffer_refuses_and_stays_as_it_is() -> None:
    buffer = DuplexOutputBuffer(OutputLimits(max_events=1))
    buffer.put(note(1))
    with pytest.raises(DuplexOutputOverflowError):
        buffer.put(note(2))
    assert buffer.pending_events == 1


async def test_room_is_reported_once_when_the_reader_made_it() -> None:
    reports: list[int] = []
    buffer = DuplexOutputBuffer(OutputLimits(max_events=4), clock=lambda: 0.0)
    buffer.attach(OutputWakes(asyncio.get_running_loop()), lambda: reports.append(1))
    for number in range(3):
        buffer.put(note(number))
    assert buffer.holds_back()
    for _ in range(3):
        await buffer.get()
    assert reports == [1]


async def test_end_is_told_to_all_who_wait_for_it_and_once_to_the_owner() -> None:
    ended: list[int] = []
    buffer = DuplexOutputBuffer()
    buffer.on_closed(lambda: ended.append(1))
    waiters = [asyncio.create_task(buffer.wait_closed()) for _ in range(3)]
    await asyncio.sleep(0)
    buffer.put(TERMINAL)
    buffer.close()
    await asyncio.wait_for(asyncio.gather(*waiters), PATIENCE_S)
    await asyncio.wait_for(buffer.wait_closed(), PATIENCE_S)
    assert ended == [1]
