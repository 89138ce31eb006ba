"""Callers of the in-process API, cancelled at every place where they wait: nothing stays behind.

Each of them is lived through as often as it has waits, and cancelled at another one each time: as
soon as it waits, and when the answer is there but the caller has not gone on yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from duplex_sdk.testing.cancel_points import Moment, Swept, cancelled_at
from duplex_server.entrypoints import DuplexOmni, DuplexSessionError, DuplexSessionHandle
from duplex_server.runtime.control import CloseSessionMessage
from duplex_server.runtime.input_room import Room
from patience import PATIENCE_S

Work = Callable[[DuplexSessionHandle], Coroutine[Any, Any, Any]]

both_moments = pytest.mark.parametrize("moment", Moment)


@pytest.fixture
async def omni(engine: Any) -> AsyncIterator[DuplexOmni]:
    async with engine(max_sessions=1, reaper_interval_s=0.01) as running:
        yield running


def left(omni: DuplexOmni) -> list[str]:
    """Slots, handles, requests, waiters of answers and settlements that are there now."""
    engine: Any = omni.engine
    manager, orchestrator = engine.manager, engine._orchestrator
    kept: dict[str, Any] = {
        "slots": omni.health().slots_used,
        "handles": omni.sessions,
        "settling": omni._settling,
        "waiters": engine._rpc._waiters,
        "table": not manager._table.empty,
        "requests": orchestrator.request_count,
        "streams": orchestrator.stream_count,
    }
    for name in ("_opens", "_preparing", "_prepared", "_runners", "_retries"):
        kept[name] = getattr(manager, name)
    return [name for name, value in kept.items() if value]


async def assert_empty(omni: DuplexOmni, until_true: Any) -> None:
    """Nothing is left, once the engine's thread has done what it was asked."""
    # Behind everything that was sent before.
    await omni.engine.control(CloseSessionMessage("last", "nobody", "done"), timeout_s=10)
    try:
        await until_true(lambda: not left(omni))
    except TimeoutError:
        raise AssertionError(f"{left(omni)} are left") from None


async def opened(omni: DuplexOmni) -> DuplexSessionHandle:
    """A session; the slot of the one before may come free a moment late."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await omni.open_session()
            except DuplexSessionError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(0.002)


async def sweep(
    run: Callable[[int], Coroutine[Any, Any, Swept[Any]]],
) -> int:
    """Run at each place until one is not reached; returns how many there were."""
    place = 1
    while (await run(place)).reached:
        place += 1
    return place - 1


@both_moments
async def test_an_open_cancelled_anywhere(
    omni: DuplexOmni, until_true: Any, moment: Moment
) -> None:
    async def run(place: int) -> Swept[Any]:
        swept = await cancelled_at(omni.open_session(), place, moment)
        if swept.reached:
            assert isinstance(swept.error, asyncio.CancelledError)
        else:
            assert swept.result is not None
            await swept.result.close()
        await assert_empty(omni, until_true)
        return swept

    assert await sweep(run) >= 1


@both_moments
async def test_a_close_cancelled_anywhere(
    omni: DuplexOmni, until_true: Any, moment: Moment
) -> None:
    async def run(place: int) -> Swept[Any]:
        handle = await opened(omni)
        swept = await cancelled_at(handle.close(), place, moment)
        assert await asyncio.wait_for(handle.wait_closed(), PATIENCE_S) == "client_close"
        await assert_empty(omni, until_true)
        return swept

    assert await sweep(run) >= 1


@both_moments
@pytest.mark.parametrize("claimed", [True, False])
async def test_a_resume_cancelled_anywhere_has_one_owner(
    omni: DuplexOmni, until_true: Any, moment: Moment, claimed: bool
) -> None:
    async def run(place: int) -> Swept[Any]:
        handle = await opened(omni)
        owners: list[int] = []

        def claim(_: DuplexSessionHandle, generation: int) -> None:
            owners.append(generation)

        work = omni.resume_session(handle.session_id, 0, on_abandoned=claim if claimed else None)
        swept = await cancelled_at(work, place, moment)
        await until_true(lambda: not omni._settling)
        # It landed, whoever called it: the generation is 1 and somebody answers for it.
        assert handle.lease_generation == 1
        nobody = swept.reached and not claimed
        assert owners == ([1] if swept.reached and claimed else [])
        await until_true(lambda: omni.health().detached_sessions == nobody)
        with pytest.raises(DuplexSessionError) as stale:
            await omni.resume_session(handle.session_id, 0)
        assert stale.value.code == "session_resume_conflict"
        assert await omni.resume_session(handle.session_id, 1) is handle
        await handle.close()
        await assert_empty(omni, until_true)
        return swept

    assert await sweep(run) >= 1


async def _touch(handle: DuplexSessionHandle) -> None:
    await handle._omni.touch_session(handle.session_id, "heartbeat", 0)  # type: ignore[union-attr]


async def _detach(handle: DuplexSessionHandle) -> None:
    await handle._omni.detach_session(handle.session_id, 0)  # type: ignore[union-attr]


async def _read(handle: DuplexSessionHandle) -> None:
    async for event in handle.events():
        if event.type == "session.heartbeat_ack":
            return


async def _use(handle: DuplexSessionHandle) -> None:
    async with handle:
        await asyncio.sleep(0)


@both_moments
@pytest.mark.parametrize("work", [_touch, _detach, _read, _use])
async def test_other_calls_cancelled_anywhere(
    omni: DuplexOmni, until_true: Any, work: Work, moment: Moment
) -> None:
    async def run(place: int) -> Swept[Any]:
        handle = await opened(omni)
        handle.heartbeat()
        swept = await cancelled_at(work(handle), place, moment)
        if work is _use:
            assert await asyncio.wait_for(handle.wait_closed(), PATIENCE_S)
        elif work is _read:
            # Whoever reads next misses no more than the event that was on its way.
            handle.heartbeat()
            await asyncio.wait_for(_read(handle), PATIENCE_S)
        await handle.close()
        await assert_empty(omni, until_true)
        return swept

    assert await sweep(run) >= 1


@both_moments
@pytest.mark.parametrize(("turns", "waits_for"), [(1, "an append"), (2, "a commit")])
async def test_a_wait_for_room_cancelled_anywhere_keeps_no_place(
    engine: Any, until_true: Any, speech: bytes, moment: Moment, turns: int, waits_for: str
) -> None:
    """Append and commit wait in no other place; the commands themselves are one call."""
    hold = {"where": "plan", "nth": "every", "do": {"hang_ms": 20}}
    limits = {
        "max_sessions": 1,
        "reaper_interval_s": 0.01,
        "max_pending_input_bytes_per_session": turns * len(speech),
        "max_pending_turns_per_session": 1,
    }
    count, turn = (len(speech), False) if waits_for == "an append" else (0, True)
    async with engine({"faults": [hold]}, **limits) as omni:

        async def run(place: int) -> Swept[Any]:
            handle = await opened(omni)
            room = handle.link.room
            for _ in range(turns):
                handle.append_audio(speech)
                handle.commit(response_create=True)
            await until_true(lambda: room.room(count, turn=turn) is Room.LATER)
            swept = await cancelled_at(handle.wait_for_room(count, turn=turn), place, moment)
            assert room._waiters == []
            # Somebody else who waits is still told.
            assert await asyncio.wait_for(handle.wait_for_room(count, turn=turn), PATIENCE_S)
            handle.append_audio(speech)
            handle.cancel_response()
            await handle.close()
            await assert_empty(omni, until_true)
            return swept

        assert await sweep(run) >= 1
