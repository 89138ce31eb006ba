from __future__ import annotations

import asyncio
import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import AudioDelta, ErrorEvent
from duplex_server.entrypoints import DuplexOmni
from duplex_server.runtime.input_room import Room
from patience import PATIENCE_S

LONG = {"text": "a very long answer", "ms": 60_000, "delay_ms": 0}


async def test_no_audio_of_a_cancelled_answer_after_its_terminal(
    engine: Any, speech: bytes
) -> None:
    async with engine({"answers": [LONG]}) as omni:
        handle = await omni.open_session()
        handle.append_audio(speech)
        handle.commit(response_create=True)
        events = handle.events()
        kinds: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                kinds.append(event.type)
                if event.type == "response.output_audio.delta":
                    break
            # The reader stands still: what the model makes must wait for it.
            await asyncio.sleep(0.3)
            assert handle.link.output.pending_bytes <= 2 * 1024 * 1024
            handle.cancel_response()
            await asyncio.sleep(0.1)
            async for event in events:
                kinds.append(event.type)
                if event.type == "response.done":
                    assert event.response.status == "cancelled"
                    break
        handle.heartbeat()
        async for event in events:
            assert not isinstance(event, AudioDelta)
            if event.type == "session.heartbeat_ack":
                break
        await handle.close()
        assert kinds.count("response.output_audio.delta") < 70


async def test_a_long_answer_made_in_a_moment_reaches_a_client_that_reads(
    engine: Any, reader: Any, speech: bytes
) -> None:
    async with (
        engine({"answers": [LONG]}, max_pending_output_bytes_per_session=300_000) as omni,
        await omni.open_session() as handle,
    ):
        seen = reader(handle)
        handle.append_audio(speech)
        handle.commit(response_create=True)
        done = await seen.until("response.done")
        assert done.response.status == "completed"
        played = sum(event.duration_ms for event in seen.events if isinstance(event, AudioDelta))
        assert played == pytest.approx(60_000, abs=1)


async def test_a_reader_that_stalls_is_ended_and_a_neighbour_is_not(
    engine: Any, reader: Any, speech: bytes
) -> None:
    async with engine(
        {"answers": [LONG]},
        max_pending_output_bytes_per_session=300_000,
        output_stall_timeout_s=0.1,
    ) as omni:
        stalled = await omni.open_session()
        stalled.append_audio(speech)
        stalled.commit(response_create=True)
        async with await omni.open_session() as neighbour:
            seen = reader(neighbour)
            neighbour.append_audio(speech)
            neighbour.commit(response_create=True)
            async with asyncio.timeout(PATIENCE_S):
                await stalled.wait_closed()
            assert (await seen.until("response.done")).response.status == "completed"
        late = reader(stalled)
        await late.task
        done = await late.until("response.done")
        assert done.response.status == "failed"
        assert late.events[-1].reason == "output_backpressure"


async def test_room_is_there_until_the_limit_is_held(engine: Any, until_true: Any) -> None:
    async with (
        engine(max_pending_input_bytes_per_session=64_000) as omni,
        await omni.open_session() as handle,
    ):
        assert await handle.wait_for_room(64_000)
        assert not await handle.wait_for_room(64_001)
        handle.append_audio(os.urandom(12_000))
        # Decoded audio stays with the buffer until a commit: waiting would help nobody.
        await until_true(lambda: handle.link.room.room(60_000) is Room.LATER)
        async with asyncio.timeout(PATIENCE_S):
            assert not await handle.wait_for_room(60_000)
        handle.clear_input()
        await until_true(lambda: handle.link.room.room(60_000) is Room.NOW)
        assert await handle.wait_for_room(60_000)


async def test_nobody_waits_for_room_in_a_session_that_ended(omni: DuplexOmni) -> None:
    handle = await omni.open_session()
    await handle.close()
    assert not await handle.wait_for_room(1)


async def test_too_much_input_is_refused_with_the_clients_event_id(
    engine: Any, reader: Any
) -> None:
    async with (
        engine(max_pending_input_bytes_per_session=10_000) as omni,
        await omni.open_session() as handle,
    ):
        seen = reader(handle)
        handle.append_audio(bytes(20_000), event_id="mine")
        error = await seen.until("error")
        assert isinstance(error, ErrorEvent)
        assert (error.error.code, error.error.event_id) == ("input_backpressure", "mine")


@pytest.mark.parametrize(
    "fault",
    [
        {"where": "step", "nth": 1, "do": "raise"},
        {"where": "step", "nth": 1, "do": "none"},
        {"where": "step", "nth": 1, "do": "garbage"},
        {"where": "step", "nth": 1, "do": "nan"},
        {"where": "step", "nth": 1, "do": "wrong_rate"},
        {"where": "open", "nth": 1, "do": "raise"},
        {"where": "plan", "nth": 1, "do": "raise"},
        {"where": "project", "nth": 1, "do": "raise"},
        {"where": "project", "nth": 1, "do": "unknown_decision"},
        {"where": "step", "nth": 1, "do": "empty_speak"},
        {"where": "close", "nth": 1, "do": "raise"},
        {"where": "step", "nth": 1, "do": "system_exit"},
    ],
    ids=lambda fault: f"{fault['where']}-{fault['do']}",
)
async def test_b04_a_faulty_session_disturbs_no_other(
    omni: DuplexOmni, reader: Any, speech: bytes, until_true: Any, fault: dict[str, Any]
) -> None:
    faulty = await omni.open_session({"extra_body": {"script": {"faults": [fault]}}})
    async with await omni.open_session() as healthy:
        ill, well = reader(faulty), reader(healthy)
        for turn in range(1, 4):
            for handle in (faulty, healthy):
                if not handle.closed:
                    handle.append_audio(speech)
                    handle.commit(response_create=True)
            done = await well.until("response.done", turn)
            assert done.response.status == "completed"
        assert "error" not in well.kinds
        assert omni.health().alive
        await faulty.close()
        async with asyncio.timeout(PATIENCE_S):
            await ill.task
        assert ill.kinds.count("session.closed") == 1
        statuses = {event.response.status for event in ill.events if event.type == "response.done"}
        assert "failed" not in statuses or "error" in ill.kinds
        assert statuses or "error" in ill.kinds or "response.listen" in ill.kinds
        created = {event.response.id for event in ill.events if event.type == "response.created"}
        done_ids = [event.response.id for event in ill.events if event.type == "response.done"]
        assert created == set(done_ids)
        assert len(done_ids) == len(set(done_ids))
        await until_true(lambda: omni.health().slots_used == 1)


async def test_a_hung_plan_holds_neither_cancel_nor_neighbours_up(
    omni: DuplexOmni, reader: Any, speech: bytes
) -> None:
    fault = {"where": "plan", "nth": 1, "do": {"hang_ms": 600_000}}
    hung = await omni.open_session({"extra_body": {"script": {"faults": [fault]}}})
    async with await omni.open_session() as healthy:
        ill, well = reader(hung), reader(healthy)
        hung.append_audio(speech)
        hung.commit(response_create=True)
        healthy.append_audio(speech)
        healthy.commit(response_create=True)
        await well.until("response.done")
        async with asyncio.timeout(PATIENCE_S):
            await hung.close()
            await ill.task
        assert ill.kinds[-1] == "session.closed"


ON_A_THREAD = {"faults": [{"where": "close", "nth": 99, "do": "raise"}]}
"""A server script with faults runs its stage on a thread of its own."""


async def test_a_stuck_replica_ends_its_sessions_and_comes_back(
    engine: Any, reader: Any, speech: bytes, until_true: Any
) -> None:
    fault = {"where": "step", "nth": 1, "do": {"block_ms": 1000}}
    async with engine(ON_A_THREAD, stage_call_timeout_s=0.2) as omni:
        fatal = await omni.open_session({"extra_body": {"script": {"faults": [fault]}}})
        seen = reader(fatal)
        fatal.append_audio(speech)
        fatal.commit(response_create=True)
        async with asyncio.timeout(PATIENCE_S):
            await seen.task
        assert seen.events[-1].reason == "runtime_failed"
        assert seen.kinds.count("response.done") == seen.kinds.count("response.created")
        await until_true(lambda: omni.health().slots_used == 0)

        await until_true(lambda: all(stage.alive for stage in omni.health().stages))
        async with await omni.open_session() as handle:
            again = reader(handle)
            handle.append_audio(speech)
            handle.commit(response_create=True)
            assert (await again.until("response.done")).response.status == "completed"


BLOCKED_CLOSE = {"faults": [{"where": "close", "nth": 1, "do": {"block_ms": 600}}]}


async def test_a_slow_cleanup_delays_no_terminal_and_keeps_the_slot_until_it_is_done(
    engine: Any,
    reader: Any,
    speech: bytes,
    until_true: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = threading.Event()
    blocked = SimpleNamespace(sleep=lambda _: done.wait(2 * PATIENCE_S))
    monkeypatch.setattr("duplex_sdk.testing.faults.time", blocked)
    async with engine(ON_A_THREAD, close_timeout_s=0.1, reaper_interval_s=0.2) as omni:
        slow = await omni.open_session({"extra_body": {"script": BLOCKED_CLOSE}})
        seen = reader(slow)
        slow.append_audio(speech)
        slow.commit(response_create=True)
        await seen.until("response.done")
        async with asyncio.timeout(PATIENCE_S):
            await slow.close()
            await seen.task
        assert seen.kinds.count("session.closed") == 1
        assert omni.health().slots_used == 1
        done.set()
        await until_true(lambda: omni.health().slots_used == 0)


async def test_a_stop_with_a_slow_cleanup_still_tells_every_session(
    engine: Any, reader: Any, speech: bytes
) -> None:
    async with engine(ON_A_THREAD, close_timeout_s=0.1) as omni:
        slow = await omni.open_session({"extra_body": {"script": BLOCKED_CLOSE}})
        seen = reader(slow)
        slow.append_audio(speech)
        slow.commit(response_create=True)
        await seen.until("response.done")
        async with asyncio.timeout(PATIENCE_S):
            await omni.stop()
            await seen.task
        assert seen.events[-1].reason == "shutdown"
        assert seen.kinds.count("session.closed") == 1
