"""86, 119: a session whose stages fail or hang costs no other session anything."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
from duplex_sdk.plugin import (
    DuplexSessionRuntimeConfig,
    DuplexStageSubmission,
    request_session_id,
)
from duplex_sdk.testing.session_lab import tone
from duplex_server.entrypoints import DuplexOmni, DuplexSessionHandle
from duplex_server.testing import Harness
from patience import PATIENCE_S, eventually

SCRIPT = {"turns": "commit", "pace": "burst", "answers": [{"ms": 100, "delay_ms": 0}]}
LONG_S = 10 * PATIENCE_S
"""What a call for the bad session may take; nobody else may wait for any of it."""


class Cleanups:
    """The real stages, but the cleanup of one session hangs or fails as long as it is told to."""

    def __init__(self, stages: Any) -> None:
        self._stages = stages
        self.bad = ""
        self.fails = False
        self.tries = 0
        self.let_go = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stages, name)

    async def cleanup(self, request_ids: Iterable[str], *, abort: bool = False) -> None:
        await self._stages.cleanup(request_ids, abort=abort)

    async def release_session(self, session_id: str) -> None:
        if session_id == self.bad and not self.let_go.is_set():
            self.tries += 1
            if self.fails:
                raise RuntimeError("the stage does not let go")
            await self.let_go.wait()
        await self._stages.release_session(session_id)


def hampered(omni: DuplexOmni) -> Cleanups:
    manager: Any = omni.engine.manager
    cleanups = Cleanups(manager._services.port)
    manager._services = dataclasses.replace(manager._services, port=cleanups)
    manager._factory._services = manager._services
    return cleanups


class Hung:
    """The real stages, but one kind of call hangs for one session."""

    def __init__(self, stages: Any, call: str) -> None:
        self._stages = stages
        self._call = call
        self.bad = ""
        self.hangs = 0
        self.let_go = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stages, name)

    async def submit(self, submission: DuplexStageSubmission) -> Any:
        await self._maybe("submit", submission.context.session_id)
        return await self._stages.submit(submission)

    async def abort_requests(self, request_ids: Iterable[str], **fields: Any) -> None:
        request_ids = tuple(request_ids)
        await self._maybe("abort_requests", *map(request_session_id, request_ids))
        await self._stages.abort_requests(request_ids, **fields)

    async def cleanup(self, request_ids: Iterable[str], *, abort: bool = False) -> None:
        request_ids = tuple(request_ids)
        await self._maybe("cleanup", *map(request_session_id, request_ids))
        await self._stages.cleanup(request_ids, abort=abort)

    async def release_session(self, session_id: str) -> None:
        await self._maybe("release_session", session_id)
        await self._stages.release_session(session_id)

    async def _maybe(self, call: str, *sessions: str | None) -> None:
        if call == self._call and self.bad in sessions:
            self.hangs += 1
            await self.let_go.wait()


async def answered(handle: DuplexSessionHandle) -> None:
    handle.append_audio(tone(200, 16_000))
    handle.commit(response_create=True)
    async for event in handle.events():
        if event.type == "response.done":
            return


@pytest.mark.parametrize("fails", [True, False])
async def test_a_cleanup_that_fails_or_hangs_holds_no_other_session_up(fails: bool) -> None:
    limits = DuplexSessionRuntimeConfig(
        max_sessions=4,
        stage_call_timeout_s=LONG_S,
        close_timeout_s=LONG_S,
        disconnect_grace_s=0.05,
        reaper_interval_s=0.02,
    )
    async with Harness().engine("scripted", {"script": SCRIPT}, limits=limits) as omni:
        cleanups = hampered(omni)
        bad, talks, leaves, expires = [await omni.open_session() for _ in range(4)]
        cleanups.bad, cleanups.fails = bad.session_id, fails
        closing = asyncio.create_task(bad.close())
        await eventually(lambda: cleanups.tries > 0)
        async with asyncio.timeout(PATIENCE_S):
            await answered(talks)
            await leaves.close()
            await omni.detach_session(expires.session_id, 0)
            assert await expires.wait_closed() == "disconnect_grace_expired"
            await eventually(lambda: omni.health().slots_used == 2)
            another = await omni.open_session()
            await answered(another)
        # The slot of the bad one is kept as long as its stages hold something of it.
        assert omni.health().slots_used == 3
        omni.engine._loop.call_soon_threadsafe(cleanups.let_go.set)  # type: ignore[union-attr]
        async with asyncio.timeout(PATIENCE_S):
            await closing
        await eventually(lambda: omni.health().slots_used == 2)


async def close_later(handle: DuplexSessionHandle, hung: Hung, *, at_once: bool) -> None:
    """End a session once a call of it hangs, or before."""
    while not (hung.hangs or at_once):  # noqa: ASYNC110 - another thread sets no event of this loop
        await asyncio.sleep(0.002)
    await handle.close()


@pytest.mark.parametrize("call", ["submit", "abort_requests", "cleanup", "release_session"])
async def test_a_hung_call_of_a_stage_holds_no_other_session_up(call: str) -> None:
    limits = DuplexSessionRuntimeConfig(
        max_sessions=4,
        stage_call_timeout_s=LONG_S,
        close_timeout_s=LONG_S,
        disconnect_grace_s=0.05,
        reaper_interval_s=0.02,
    )
    async with Harness().engine("scripted", {"script": SCRIPT}, limits=limits) as omni:
        manager: Any = omni.engine.manager
        hung = Hung(manager._services.port, call)
        manager._services = dataclasses.replace(manager._services, port=hung)
        manager._factory._services = manager._services
        bad, talks, leaves, expires = [await omni.open_session() for _ in range(4)]
        if call == "submit":
            hung.bad = bad.session_id
            bad.append_audio(tone(200, 16_000))
            bad.commit(response_create=True)
        else:
            await answered(bad)
            hung.bad = bad.session_id
            bad.cancel_input()
        closing = asyncio.create_task(close_later(bad, hung, at_once=call == "release_session"))
        await eventually(lambda: hung.hangs > 0)
        async with asyncio.timeout(PATIENCE_S):
            await answered(talks)
            await leaves.close()
            await omni.detach_session(expires.session_id, 0)
            assert await expires.wait_closed() == "disconnect_grace_expired"
        omni.engine._loop.call_soon_threadsafe(hung.let_go.set)  # type: ignore[union-attr]
        await asyncio.wait_for(closing, PATIENCE_S)
