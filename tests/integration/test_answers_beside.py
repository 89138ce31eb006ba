"""Answers outside the conversation, beside one of it, against a running server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from duplex_server.testing import Harness, RunningServer
from websockets.asyncio.client import connect

ASK = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a title"}]}
ASIDE = {
    "conversation": "none",
    "input": [ASK],
    "output_modalities": ["text"],
    "metadata": {"topic": "title"},
}


@asynccontextmanager
async def serving() -> AsyncIterator[RunningServer]:
    answer = {"text": "one two three four five", "ms": 400, "delay_ms": 0}
    script = {"turns": "commit", "answers": [answer]}
    async with Harness().server("scripted", {"script": script}) as server:
        yield server


@pytest.mark.parametrize("path", ["/v1/duplex", "/v1/realtime"])
async def test_a_title_is_written_while_the_answer_is_spoken(path: str) -> None:
    async with serving() as server, connect(server.url + path) as socket:
        for frame in (
            {"type": "session.update", "session": {"turn_detection": None}},
            {"type": "conversation.item.create", "item": ASK},
            {"type": "response.create"},
            {"type": "response.create", "response": ASIDE},
        ):
            await socket.send(msgspec.json.encode(frame).decode())
        events: list[dict[str, Any]] = []
        while sum(event["type"] == "response.done" for event in events) < 2:
            events.append(msgspec.json.decode(await socket.recv()))
    assert not [event for event in events if event["type"] == "error"]
    spoken, aside = [e["response"]["id"] for e in events if e["type"] == "response.created"]
    ends = {e["response"]["id"]: e for e in events if e["type"] == "response.done"}
    assert {end["response"]["status"] for end in ends.values()} == {"completed"}
    assert ends[aside]["response"]["metadata"]["topic"] == "title"
    (item,) = ends[aside]["response"]["output"]
    assert item["content"] == [{"type": "output_text", "text": "one two three four five"}]
    order = [e["response_id"] for e in events if e["type"].endswith(".delta")]
    first_aside = order.index(aside)
    assert spoken in order[:first_aside]
    assert spoken in order[first_aside:]
    told = [e["item"]["id"] for e in events if e["type"] == "conversation.item.added"]
    assert item["id"] not in told
