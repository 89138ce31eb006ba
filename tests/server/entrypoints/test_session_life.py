from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import SessionClosed, SessionCreated, SessionExpired, SessionUpdated
from duplex_server.entrypoints import DuplexOmni, DuplexSessionError
from patience import PATIENCE_S, eventually


async def test_a_session_begins_with_created_and_ends_with_closed(
    omni: DuplexOmni, reader: Any
) -> None:
    async with await omni.open_session() as handle:
        seen = reader(handle)
        created = await seen.until("session.created")
        assert isinstance(created, SessionCreated)
        assert created.session["id"] == handle.session_id
    await seen.task
    assert isinstance(seen.events[-1], SessionClosed)
    assert seen.kinds.count("session.closed") == 1
    assert handle.close_reason == "client_close"


async def test_an_update_that_opens_is_answered_by_updated(omni: DuplexOmni, reader: Any) -> None:
    async with await omni.open_session({"instructions": "x"}, by_update=True) as handle:
        seen = reader(handle)
        updated = await seen.until("session.updated")
        assert isinstance(updated, SessionUpdated)
        assert seen.kinds == ["session.created", "session.updated"]
        assert handle.public_session["instructions"] == "x"


async def test_five_polite_turns_get_five_answers(
    omni: DuplexOmni, reader: Any, speech: bytes
) -> None:
    async with await omni.open_session() as handle:
        seen = reader(handle)
        for turn in range(1, 6):
            handle.append_audio(speech)
            handle.commit(response_create=True)
            done = await seen.until("response.done", turn)
            assert done.response.status == "completed"
    created = [event.response.id for event in seen.events if event.type == "response.created"]
    done = [event.response.id for event in seen.events if event.type == "response.done"]
    assert created == done
    assert len(set(done)) == 5


async def test_a_closed_session_refuses_commands(omni: DuplexOmni) -> None:
    handle = await omni.open_session()
    await handle.close()
    with pytest.raises(DuplexSessionError) as refused:
        handle.append_audio(b"\0\0")
    assert refused.value.code == "session_closed"


async def test_closing_twice_is_one_close(omni: DuplexOmni, reader: Any) -> None:
    handle = await omni.open_session()
    seen = reader(handle)
    await asyncio.gather(handle.close(), handle.close("again"))
    await handle.close()
    await seen.task
    assert seen.kinds.count("session.closed") == 1


async def test_close_waits_for_the_terminal_event_without_a_reader(omni: DuplexOmni) -> None:
    handle = await omni.open_session()
    await handle.close()
    assert handle.closed
    assert omni.sessions == {}
    assert omni.health().slots_used == 0


async def test_a_command_that_closes_ends_the_session_for_those_who_wait(omni: DuplexOmni) -> None:
    handle = await omni.open_session()
    handle.close_after_commands()
    async with asyncio.timeout(PATIENCE_S):
        assert await handle.wait_closed() == "client_close"
    assert handle.closed


async def test_full_engine_refuses_retryably_and_admits_again(engine: Any) -> None:
    async with engine(max_sessions=2) as omni:
        first = await omni.open_session()
        await omni.open_session()
        with pytest.raises(DuplexSessionError) as refused:
            await omni.open_session()
        assert refused.value.code == "resource_exhausted"
        assert refused.value.retryable
        await first.close()
        await omni.open_session()
        assert omni.health().slots_used == 2


async def test_a_refused_open_leaves_nothing(omni: DuplexOmni) -> None:
    with pytest.raises(DuplexSessionError) as refused:
        await omni.open_session({"extra_body": {"script": {"no such key": 1}}})
    assert refused.value.code == "invalid_duplex_runtime_config"
    assert omni.sessions == {}
    assert omni.health().slots_used == 0


async def test_stopping_ends_every_session_with_its_terminal_event(
    engine: Any, reader: Any
) -> None:
    async with engine() as omni:
        handles = [await omni.open_session() for _ in range(5)]
        readers = [reader(handle) for handle in handles]
        for seen in readers:
            await seen.until("session.created")
    for seen in readers:
        async with asyncio.timeout(PATIENCE_S):
            await seen.task
        assert seen.events[-1].reason == "shutdown"
        assert seen.kinds.count("session.closed") == 1


async def test_a_dead_engine_closes_its_handles(
    omni: DuplexOmni, reader: Any, until_true: Any
) -> None:
    handle = await omni.open_session()
    seen = reader(handle)
    await seen.until("session.created")
    loop = omni.engine._loop
    loop.call_soon_threadsafe(loop.stop)
    async with asyncio.timeout(PATIENCE_S):
        await seen.task
    assert seen.events[-1].reason == "engine_dead"
    assert not omni.health().alive
    with pytest.raises(DuplexSessionError) as refused:
        await omni.open_session()
    assert refused.value.code == "engine_dead"


async def test_grace_ends_a_detached_session(engine: Any, reader: Any) -> None:
    async with engine(disconnect_grace_s=0.05) as omni:
        handle = await omni.open_session()
        seen = reader(handle)
        await omni.detach_session(handle.session_id, 0)
        assert omni.health().detached_sessions == 1
        async with asyncio.timeout(PATIENCE_S):
            await seen.task
        assert isinstance(seen.events[-1], SessionExpired)
        assert seen.events[-1].reason == "disconnect_grace_expired"
        assert omni.health().slots_used == 0


async def test_resume_takes_the_lease_and_stale_detaches_are_refused(omni: DuplexOmni) -> None:
    handle = await omni.open_session()
    await omni.detach_session(handle.session_id, 0)
    assert await omni.resume_session(handle.session_id, 0) is handle
    assert handle.lease_generation == 1
    with pytest.raises(DuplexSessionError) as refused:
        await omni.detach_session(handle.session_id, 0)
    assert refused.value.code == "session_resume_conflict"
    assert omni.health().open_sessions == 1


async def test_of_racing_resumes_exactly_one_succeeds(omni: DuplexOmni) -> None:
    handle = await omni.open_session()
    results = await asyncio.gather(
        *(omni.resume_session(handle.session_id, 0) for _ in range(5)), return_exceptions=True
    )
    assert sum(result is handle for result in results) == 1


async def test_a_resume_cancelled_on_its_way_finds_an_owner(
    omni: DuplexOmni, until_true: Any
) -> None:
    handle = await omni.open_session()
    owners: list[int] = []
    task = asyncio.create_task(
        omni.resume_session(
            handle.session_id, 0, on_abandoned=lambda _, generation: owners.append(generation)
        )
    )
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_true(lambda: bool(owners))
    assert owners == [1]
    assert handle.lease_generation == 1


async def test_an_ended_session_is_freed(omni: DuplexOmni, reader: Any, speech: bytes) -> None:
    handle = await omni.open_session()
    seen = reader(handle)
    handle.append_audio(speech)
    handle.commit(response_create=True)
    await seen.until("response.done")
    manager = omni.engine.manager
    assert manager is not None
    runner = weakref.ref(manager.runner(handle.session_id))
    session = weakref.ref(manager.runner(handle.session_id).session)
    handle_gone = weakref.ref(handle)
    await handle.close()
    await seen.task
    gc.disable()
    try:
        del handle, seen
        # The engine's thread lets go of them when it has nothing else to do.
        await eventually(lambda: (runner(), session(), handle_gone()) == (None, None, None))
    finally:
        gc.enable()


async def test_an_idle_engine_keeps_nothing_of_ended_sessions(
    omni: DuplexOmni, reader: Any, speech: bytes
) -> None:
    for _ in range(3):
        async with await omni.open_session() as handle:
            seen = reader(handle)
            handle.append_audio(speech)
            handle.commit(response_create=True)
            await seen.until("response.done")
        await seen.task
    orchestrator = omni.engine._orchestrator
    assert orchestrator is not None
    assert orchestrator.request_count == 0
    assert orchestrator.stream_count == 0


async def test_one_reader_at_a_time(omni: DuplexOmni) -> None:
    async with await omni.open_session() as handle:
        first = handle.events()
        assert (await anext(first)).type == "session.created"
        waiting = asyncio.create_task(anext(first))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError):
            handle.events()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

        second = handle.events()
        handle.heartbeat()
        assert (await anext(second)).type == "session.heartbeat_ack"
        with pytest.raises(RuntimeError):
            await anext(first)


SLOW_OPEN = {
    "extra_body": {"script": {"faults": [{"where": "config", "nth": 1, "do": {"hang_ms": 60_000}}]}}
}


async def test_a_slow_preparation_is_given_up_retryably(engine: Any) -> None:
    async with engine(stage_call_timeout_s=0.05) as omni:
        with pytest.raises(DuplexSessionError) as refused:
            await omni.open_session(SLOW_OPEN)
        assert (refused.value.code, refused.value.retryable) == ("timeout", True)
        assert omni.health().slots_used == 0


async def test_a_session_being_prepared_holds_its_slot(engine: Any, until_true: Any) -> None:
    async with engine(max_sessions=1) as omni:
        slow = asyncio.create_task(omni.open_session(SLOW_OPEN))
        await until_true(lambda: omni.health().slots_used == 1)
        with pytest.raises(DuplexSessionError) as refused:
            await omni.open_session()
        assert refused.value.code == "resource_exhausted"
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        await until_true(lambda: omni.health().slots_used == 0)


async def test_stopping_ends_an_open_under_way(engine: Any, until_true: Any) -> None:
    async with engine() as omni:
        slow = asyncio.create_task(omni.open_session(SLOW_OPEN))
        await until_true(lambda: omni.health().slots_used == 1)
        async with asyncio.timeout(PATIENCE_S):
            await omni.stop()
        with pytest.raises(DuplexSessionError):
            await slow
        assert omni.sessions == {}


async def test_an_engine_that_is_not_running_says_so(engine: Any) -> None:
    async with engine() as omni:
        pass
    with pytest.raises(DuplexSessionError) as refused:
        await omni.open_session()
    assert refused.value.code == "engine_dead"
