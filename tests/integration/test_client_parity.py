"""Both clients hear the same of the same script: over a socket, and over no wire at all."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
from duplex_sdk.audio import PcmChunk, float_to_pcm16, resample
from duplex_sdk.cli.server_process import ServerProcess
from duplex_sdk.clients import (
    BoundedStream,
    ClientProtocolError,
    DuplexClient,
    DuplexClientBase,
    PlaybackQueue,
)
from duplex_sdk.protocol.duplex import (
    DuplexEvent,
    ErrorEvent,
    InputCommitted,
    ItemDeleted,
    ItemRetrieved,
    ItemTruncated,
    PlaybackAcknowledged,
    RateLimitsUpdated,
    SessionUpdated,
)
from duplex_server.entrypoints import DuplexOmni, InlineDuplexClient
from hibari import SAMPLE_RATE, Hibari
from patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = {
    "pace": "burst",
    "answers": [{"heard": True, "ms": 800}, {"text": "two words", "ms": 400}],
}
SESSION = {"extra_body": {"script": SCRIPT}}
ID = re.compile(r"(?:duplex-|(?:event|item|resp)_(?:resp_)?)[0-9a-f]{32}|client_\d+")

Conversation = Callable[[DuplexClientBase, BoundedStream[DuplexEvent]], Awaitable[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server_url() -> AsyncIterator[str]:
    async with ServerProcess("--plugin", "scripted", "--max-sessions", "4") as server:
        yield server.url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def omni() -> AsyncIterator[DuplexOmni]:
    omni = DuplexOmni("scripted")
    await omni.start()
    yield omni
    await omni.stop()


@pytest.fixture(scope="module")
def speech() -> bytes:
    pieces = Hibari(threads=1).stream("What is seven plus five, please?", seed=0)
    spoken = np.concatenate([np.asarray(piece, dtype=np.float32) for piece in pieces])
    return float_to_pcm16(resample(PcmChunk.of(spoken, SAMPLE_RATE), 16_000).numpy())


async def until(events: BoundedStream[DuplexEvent], kind: type[DuplexEvent]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async for event in events:
            if isinstance(event, kind):
                return
    raise AssertionError(f"the session ended before {kind.__name__}")


async def heard_by(client: DuplexClientBase, conversation: Conversation) -> list[Any]:
    seen = client.events(size=4096)
    async with client:
        await conversation(client, client.events(size=4096))
    return comparable([event.to_realtime() async for event in seen])


def comparable(events: list[dict[str, Any]]) -> list[Any]:
    """Ids replaced by the order in which they first appear, what names the attachment left out."""
    names: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        return names.setdefault(match.group(), f"id{len(names)}")

    for event in events:
        event.pop("event_id", None)
        event.pop("attachment_generation", None)
        event.pop("resume_token", None)
    plain = ID.sub(name, json.dumps(events, sort_keys=True))
    result: list[Any] = json.loads(plain)
    return result


async def manual_turn(client: DuplexClientBase, events: BoundedStream[DuplexEvent]) -> None:
    await client.append_audio(bytes(range(256)) * 100, is_speech=True)
    await client.commit()
    await until(events, InputCommitted)
    await client.create_response(metadata={"topic": "parity"})
    await until(events, RateLimitsUpdated)


async def written_turn(client: DuplexClientBase, events: BoundedStream[DuplexEvent]) -> None:
    item = {
        "id": "mine",
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "hello"}],
    }
    await client.create_item(item)
    await client.create_response()
    await until(events, RateLimitsUpdated)
    await client.retrieve_item("mine")
    await until(events, ItemRetrieved)
    await client.delete_item("mine")
    await until(events, ItemDeleted)


async def refused_commands(client: DuplexClientBase, events: BoundedStream[DuplexEvent]) -> None:
    # One by one: what the connection layer refuses may overtake what the session refuses.
    for refused in (
        client.cancel_response,
        client.commit,
        lambda: client.delete_item("nothing"),
        lambda: client.send({"type": "no.such.event"}),
        lambda: client.send({"type": "input_audio_buffer.append", "audio": "*"}),
    ):
        await refused()
        await until(events, ErrorEvent)
    await client.update({"turn_detection": None})
    await until(events, SessionUpdated)


async def truncated_answer(client: DuplexClientBase, events: BoundedStream[DuplexEvent]) -> None:
    responses = client.responses()
    await client.append_audio(bytes(range(256)) * 100, is_speech=True)
    await client.commit(response_create=True)
    response = await anext(responses)
    await until(events, RateLimitsUpdated)
    await client.ack_playback(200, response_id=response.response_id)
    await client.truncate_item(response.item_id, 300)
    await until(events, ItemTruncated)


async def confirmed_turn(client: DuplexClientBase, events: BoundedStream[DuplexEvent]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await client.append_audio(bytes(range(256)) * 100, is_speech=True)
        committed = await (await client.commit()).acknowledged()
        created = await (await client.create_response()).acknowledged()
        await until(events, RateLimitsUpdated)
        assert (await client.interrupt()).response_id == created.response_id  # type: ignore[union-attr]
        item = await (await client.retrieve_item(committed.item_id)).acknowledged()
        assert item.item.role == "user"
        with pytest.raises(ClientProtocolError, match="item_delete_invalid_item_id"):
            await (await client.delete_item("nothing")).acknowledged()
        await (await client.update({"turn_detection": None})).acknowledged()


@pytest.mark.parametrize(
    "conversation",
    [manual_turn, written_turn, refused_commands, truncated_answer, confirmed_turn],
)
async def test_both_clients_hear_the_same(
    server_url: str, omni: DuplexOmni, conversation: Conversation
) -> None:
    over_socket = await heard_by(DuplexClient(server_url, SESSION), conversation)
    in_process = await heard_by(InlineDuplexClient(omni, SESSION), conversation)
    assert [event["type"] for event in over_socket] == [event["type"] for event in in_process]
    assert over_socket == in_process


async def test_both_clients_hear_the_same_spoken_turn(
    server_url: str, omni: DuplexOmni, speech: bytes
) -> None:
    async def spoken_turn(client: DuplexClientBase, events: BoundedStream[DuplexEvent]) -> None:
        await client.append_audio(speech + bytes(32_000))
        await until(events, RateLimitsUpdated)

    session = SESSION | {"turn_detection": {"type": "server_vad"}}
    over_socket = await heard_by(DuplexClient(server_url, session), spoken_turn)
    in_process = await heard_by(InlineDuplexClient(omni, session), spoken_turn)
    assert over_socket == in_process


@pytest.mark.parametrize("inline", [False, True])
async def test_both_clients_tell_how_far_they_played(
    server_url: str, omni: DuplexOmni, inline: bool
) -> None:
    client: DuplexClientBase = (
        InlineDuplexClient(omni, SESSION) if inline else DuplexClient(server_url, SESSION)
    )
    async with client, asyncio.timeout(PATIENCE_S):
        events = client.events()
        queue = PlaybackQueue()
        client.attach(queue, report_interval_s=0.02)
        await client.append_audio(bytes(range(256)) * 100, is_speech=True)
        await client.commit(response_create=True)
        heard: list[float] = []
        async for event in events:
            while queue.read(4800):
                pass
            if isinstance(event, PlaybackAcknowledged):
                heard.append(event.event["played_ms"])
            if heard and heard[-1] == 800:
                break
    assert heard == sorted(set(heard))
    assert heard[0] == 0
