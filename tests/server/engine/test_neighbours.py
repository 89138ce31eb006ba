"""86: a session whose cleanup fails or never ends costs no other session anything."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.testing.session_lab import tone
from duplex_server.entrypoints import DuplexOmni, DuplexSessionHandle
from duplex_server.testing import Harness

SCRIPT = {"turns": "commit", "pace": "burst", "answers": [{"ms": 100, "delay_ms": 0}]}
LONG_S = 3.0
"""What the cleanup of the bad session may take; nobody else may wait for any of it."""


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
        async with asyncio.timeout(LONG_S * 0.9):
            while not cleanups.tries:  # noqa: ASYNC110 - another thread sets no event of this loop
                await asyncio.sleep(0.002)
            await answered(talks)
            await leaves.close()
            await omni.detach_session(expires.session_id, 0)
            assert await expires.wait_closed() == "disconnect_grace_expired"
            while omni.health().slots_used != 2:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.002)
            another = await omni.open_session()
            await answered(another)
        # The slot of the bad one is kept as long as its stages hold something of it.
        assert omni.health().slots_used == 3
        omni.engine._loop.call_soon_threadsafe(cleanups.let_go.set)  # type: ignore[union-attr]
        async with asyncio.timeout(10):
            await closing
            while omni.health().slots_used != 2:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.002)
