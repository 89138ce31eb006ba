from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from duplex_sdk.clients import DuplexClientBase
from duplex_sdk.protocol.duplex import DuplexEvent, RateLimitsUpdated, ResponseDone
from duplex_server.testing import Harness
from patience import PATIENCE_S

SCRIPT = {
    "turns": "commit",
    "pace": "burst",
    "answers": [{"text": "one two three", "ms": 200, "delay_ms": 0}],
}


async def conversation(client: DuplexClientBase) -> list[DuplexEvent]:
    seen: list[DuplexEvent] = []
    events = client.events()
    async with client:

        async def read_until(kind: type[DuplexEvent]) -> None:
            async for event in events:
                seen.append(event)
                if isinstance(event, kind):
                    return

        for text in ("good morning", "and again"):
            await client.send_text(text)
            await client.create_response()
            async with asyncio.timeout(PATIENCE_S):
                await read_until(RateLimitsUpdated)
        await client.update({"instructions": "be brief"})
        await client.commit()
        await client.close()
        seen += [event async for event in events]
    return seen


def shape(events: list[DuplexEvent]) -> list[tuple[str, object]]:
    return [(event.type, getattr(event, "delta", None)) for event in events]


@pytest.fixture
async def both() -> AsyncIterator[tuple[DuplexClientBase, DuplexClientBase]]:
    harness = Harness()
    async with harness.server("scripted", {"script": SCRIPT}) as server:
        yield harness.inline_client(server.omni), server.client()


async def test_both_transports_give_the_same_events(
    both: tuple[DuplexClientBase, DuplexClientBase],
) -> None:
    inline, websocket = [await conversation(client) for client in both]
    assert sum(isinstance(event, ResponseDone) for event in inline) == 2
    # Counter audio holds the session's number, so samples differ; their lengths may not.
    assert [(kind, type(delta) is bytes and len(delta)) for kind, delta in shape(inline)] == [
        (kind, type(delta) is bytes and len(delta)) for kind, delta in shape(websocket)
    ]
