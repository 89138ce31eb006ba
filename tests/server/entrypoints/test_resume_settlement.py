"""Resumes whose caller does not hear the answer: the lease never stays with nobody."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from duplex_server.entrypoints import DuplexOmni, DuplexSessionError
from duplex_server.runtime.control import ResumeSessionMessage
from patience import PATIENCE_S


@contextmanager
def engine_held(omni: DuplexOmni) -> Iterator[None]:
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        release.wait(PATIENCE_S)

    loop = omni.engine._loop
    assert loop is not None
    loop.call_soon_threadsafe(hold)
    assert held.wait(PATIENCE_S)
    try:
        yield
    finally:
        release.set()


async def test_a_resume_that_timed_out_but_landed_finds_an_owner(
    omni: DuplexOmni, until_true: Any
) -> None:
    handle = await omni.open_session()
    owners: list[int] = []
    with engine_held(omni), pytest.raises(DuplexSessionError) as late:
        await omni.resume_session(
            handle.session_id,
            0,
            timeout=0.05,
            on_abandoned=lambda _, generation: owners.append(generation),
        )
    assert (late.value.code, late.value.retryable) == ("timeout", True)
    await until_true(lambda: owners == [1])
    assert handle.lease_generation == 1


async def test_a_resume_nobody_owns_is_detached_again(omni: DuplexOmni, until_true: Any) -> None:
    handle = await omni.open_session()
    with engine_held(omni):
        task = asyncio.create_task(omni.resume_session(handle.session_id, 0))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await until_true(lambda: omni.health().detached_sessions == 1)
    assert await omni.resume_session(handle.session_id, 1) is handle


async def test_the_same_resume_asked_again_is_answered_the_same(omni: DuplexOmni) -> None:
    handle = await omni.open_session()
    message = ResumeSessionMessage("once", handle.session_id, 0)
    for _ in range(3):
        result = await omni.engine.control(message, timeout_s=5)
        assert result.lease_generation == 1
    await omni.detach_session(handle.session_id, 1)
    assert omni.health().detached_sessions == 1


async def _detach_again(omni: DuplexOmni, session_id: str) -> None:
    try:
        await omni.detach_session(session_id, 0)
    except DuplexSessionError as error:
        # It may be ending, or have ended.
        if error.code not in ("session_closed", "unknown_session"):
            raise


async def test_a_second_detach_starts_no_new_grace(engine: Any, until_true: Any) -> None:
    async with engine(disconnect_grace_s=0.3, reaper_interval_s=0.05) as omni:
        handle = await omni.open_session()
        async with asyncio.timeout(PATIENCE_S):
            # If each of them began a grace of its own, none would ever end.
            while not handle.closed:
                await _detach_again(omni, handle.session_id)
                await asyncio.sleep(0.05)
            assert await handle.wait_closed() == "disconnect_grace_expired"
        await until_true(lambda: omni.health().slots_used == 0)
        with pytest.raises(DuplexSessionError) as gone:
            await omni.resume_session(handle.session_id, 0)
        assert gone.value.code == "unknown_session"
