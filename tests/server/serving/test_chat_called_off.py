"""A chat request, cancelled at every place where it waits: its session does not outlive it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.testing.cancel_points import Moment, cancelled_at
from duplex_server.entrypoints import DuplexOmni
from duplex_server.serving import DuplexApp, ServingOptions
from duplex_server.testing import Harness
from patience import PATIENCE_S, eventually

SCRIPT = {"turns": "commit", "answers": [{"text": "one two three", "ms": 200, "delay_ms": 0}]}


class Exchange:
    """One request as an ASGI server makes it; every call of it waits a moment.

    Attributes:
        sent: what the application answered.
    """

    def __init__(self, body: dict[str, Any]) -> None:
        self.sent: list[dict[str, Any]] = []
        self._body: bytes | None = msgspec.json.encode(body)
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/v1/chat/completions",
            "raw_path": b"/v1/chat/completions",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"content-type", b"application/json"), (b"host", b"here")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        body, self._body = self._body, None
        if body is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        starts = [each["status"] for each in self.sent if each["type"] == "http.response.start"]
        return starts[0] if starts else None


@pytest.fixture
async def omni() -> AsyncIterator[DuplexOmni]:
    limits = DuplexSessionRuntimeConfig(max_sessions=1, reaper_interval_s=0.01)
    async with Harness().engine("scripted", {"script": SCRIPT}, limits=limits) as running:
        yield running


async def free(omni: DuplexOmni) -> None:
    await eventually(lambda: not (omni.health().slots_used or omni.sessions))


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_chat_request_cancelled_anywhere(
    omni: DuplexOmni, moment: Moment, stream: bool
) -> None:
    asgi: Any = DuplexApp(omni, ServingOptions()).asgi()
    body = {"messages": [{"role": "user", "content": "hello"}], "stream": stream}
    place, reached = 0, True
    while reached:
        place += 1
        exchange = Exchange(body)
        work = asgi(exchange.scope, exchange.receive, exchange.send)
        swept = await asyncio.wait_for(cancelled_at(work, place, moment), PATIENCE_S)
        await free(omni)
        reached = swept.reached
    assert swept.error is None
    assert exchange.status == 200
    assert place > 3
