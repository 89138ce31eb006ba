"""Our clients' calls, cancelled at every place where they wait: no session and no task stays.

Both kinds, with a socket and without.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from duplex_sdk.clients import ClientError, DuplexClientBase
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.testing.cancel_points import Moment, cancelled_at
from duplex_sdk.testing.session_lab import tone
from duplex_server.testing import Harness, RunningServer
from patience import PATIENCE_S, eventually

MakeClient = Callable[[], DuplexClientBase]
Work = Callable[[DuplexClientBase], Coroutine[Any, Any, Any]]
SCRIPT = {
    "turns": "commit",
    "pace": "realtime",
    "answers": [{"text": "one two", "ms": 2_000, "delay_ms": 0}],
}
SPEECH = tone(200, 16_000)


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    limits = DuplexSessionRuntimeConfig(
        max_sessions=2, disconnect_grace_s=0.05, reaper_interval_s=0.01
    )
    async with Harness().server("scripted", {"script": SCRIPT}, limits=limits) as running:
        yield running


@pytest.fixture(params=["websocket", "inline"])
def make_client(server: RunningServer, request: pytest.FixtureRequest) -> MakeClient:
    session = {"turn_detection": None}
    if request.param == "inline":
        return lambda: Harness().inline_client(server.omni, session)
    return lambda: server.client(session)


async def assert_gone(server: RunningServer, tasks: set[asyncio.Task[Any]]) -> None:
    """No session lives, and no task but those that were there before."""

    def left() -> object:
        ours = {
            task
            for task in asyncio.all_tasks() - tasks
            if "duplex_sdk/clients" in str(task) or "inline_client" in str(task)
        }
        return server.omni.health().slots_used or server.omni.sessions or ours

    try:
        await eventually(lambda: not left())
    except TimeoutError:
        raise AssertionError(left()) from None


@pytest.mark.parametrize("moment", Moment)
async def test_an_open_cancelled_anywhere(
    server: RunningServer, make_client: MakeClient, moment: Moment
) -> None:
    before = asyncio.all_tasks()
    place, reached = 0, True
    while reached:
        place += 1
        client = make_client()
        swept = await cancelled_at(client.open(), place, moment)
        if not swept.reached:
            assert swept.error is None
            await client.close()
        await assert_gone(server, before)
        reached = swept.reached
    assert place > 1


async def speaks(client: DuplexClientBase) -> None:
    await client.append_audio(SPEECH)
    await client.commit(response_create=True)


async def is_acknowledged(client: DuplexClientBase) -> None:
    await client.append_audio(SPEECH)
    await (await client.commit()).acknowledged()


async def interrupts(client: DuplexClientBase) -> None:
    await speaks(client)
    await client.interrupt()


async def cancels(client: DuplexClientBase) -> None:
    await speaks(client)
    receipt = await client.cancel_response()
    try:
        await receipt.acknowledged()
    except ClientError:
        # It was quicker than its response.
        return


async def closes(client: DuplexClientBase) -> None:
    await client.close()


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("work", [speaks, is_acknowledged, interrupts, cancels, closes])
async def test_a_call_cancelled_anywhere(
    server: RunningServer, make_client: MakeClient, work: Work, moment: Moment
) -> None:
    before = asyncio.all_tasks()
    place, reached = 0, True
    while reached:
        place += 1
        client = make_client()
        await client.open()
        swept = await asyncio.wait_for(cancelled_at(work(client), place, moment), PATIENCE_S)
        if not swept.reached and swept.error is not None:
            raise swept.error
        if work is not closes:
            # The client is as good as before.
            await client.clear_input()
            await asyncio.wait_for((await client.clear_input()).acknowledged(), PATIENCE_S)
        await client.close()
        await assert_gone(server, before)
        reached = swept.reached
    assert place > 1 or work is speaks
