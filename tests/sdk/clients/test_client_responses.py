from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from duplex_sdk.clients import ClientConnectionError, DuplexClient


@pytest.fixture
async def opened(socket: Any, client: DuplexClient) -> AsyncIterator[DuplexClient]:
    socket.says_created()
    await client.open()
    yield client
    socket.says("session.closed", session_id="s", epoch=0, reason="client_close", event={})
    await client.close()


def created(socket: Any, identity: str, epoch: int = 0) -> None:
    socket.says("response.created", response_id=identity, epoch=epoch, response=body(identity))


def body(identity: str, status: str = "in_progress") -> dict[str, Any]:
    return {"id": identity, "status": status, "output": [], "output_modalities": ["audio"]}


def address(identity: str) -> dict[str, Any]:
    return {
        "response_id": identity,
        "item_id": f"item_{identity}",
        "output_index": 0,
        "content_index": 0,
    }


def audio(socket: Any, identity: str, pcm: bytes, epoch: int = 0) -> None:
    socket.says(
        "response.output_audio.delta",
        **address(identity),
        epoch=epoch,
        format="pcm16",
        sample_rate_hz=24_000,
        delta=base64.b64encode(pcm).decode(),
    )


def words(socket: Any, identity: str, text: str) -> None:
    socket.says("response.output_audio_transcript.delta", **address(identity), delta=text)


def done(socket: Any, identity: str, status: str = "completed") -> None:
    socket.says("response.done", response_id=identity, response=body(identity, status))


async def settle() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


async def test_response_gives_audio_words_and_end(socket: Any, opened: DuplexClient) -> None:
    responses = opened.responses()
    created(socket, "resp_1")
    audio(socket, "resp_1", bytes(4800))
    words(socket, "resp_1", "hello ")
    audio(socket, "resp_1", bytes(2400))
    words(socket, "resp_1", "you")
    done(socket, "resp_1")
    response = await anext(responses)
    pieces = [piece async for piece in response.audio()]
    end = await response.wait()
    assert [len(piece) for piece in pieces] == [4800, 2400]
    assert response.text == response.transcript == "hello you"
    assert (response.audio_format, response.sample_rate_hz) == ("pcm16", 24_000)
    assert response.received_ms == 150
    assert response.status == end.response.status == "completed"
    assert response.finished


async def test_interleaved_responses_are_told_apart(socket: Any, opened: DuplexClient) -> None:
    responses = opened.responses()
    created(socket, "resp_1")
    created(socket, "resp_2")
    words(socket, "resp_1", "speech")
    socket.says(
        "response.function_call_arguments.done",
        response_id="resp_2",
        item_id="item_resp_2",
        output_index=0,
        call_id="call_1",
        name="weather",
        arguments="{}",
    )
    done(socket, "resp_2")
    words(socket, "resp_1", " goes on")
    spoken, call = await anext(responses), await anext(responses)
    await call.wait()
    await settle()
    assert [c.name for c in call.function_calls] == ["weather"]
    assert spoken.text == "speech goes on"
    assert not spoken.finished


async def test_cancelled_response_falls_silent_at_once(socket: Any, opened: DuplexClient) -> None:
    responses = opened.responses()
    created(socket, "resp_1")
    for _ in range(3):
        audio(socket, "resp_1", bytes(960))
    response = await anext(responses)
    stream = response.audio()
    assert await anext(stream)
    done(socket, "resp_1", "cancelled")
    await response.wait()
    assert [piece async for piece in stream] == []


async def test_cleared_output_silences_a_finished_response(
    socket: Any, opened: DuplexClient
) -> None:
    responses = opened.responses()
    created(socket, "resp_1")
    audio(socket, "resp_1", bytes(960))
    done(socket, "resp_1")
    response = await anext(responses)
    await response.wait()
    socket.says("output_audio_buffer.cleared", response_id="resp_1")
    await settle()
    assert [piece async for piece in response.audio()] == []


async def test_unread_audio_fails_its_reader_and_nothing_else(socket: Any) -> None:
    from duplex_sdk.clients import SubscriberOverflowError

    client = DuplexClient("ws://x", socket_factory=socket.open, heartbeat_s=None, queue_size=4)
    socket.says_created()
    async with client:
        responses = client.responses()
        created(socket, "resp_1")
        response = await anext(responses)
        for _ in range(5):
            audio(socket, "resp_1", bytes(960))
        words(socket, "resp_1", "all the words")
        done(socket, "resp_1")
        await response.wait()
        assert response.text == "all the words"
        stream = response.audio()
        for _ in range(4):
            await anext(stream)
        with pytest.raises(SubscriberOverflowError):
            await anext(stream)
        socket.says("session.closed", session_id="s", epoch=0, reason="r", event={})


async def test_two_listeners_each_read_the_audio(socket: Any, opened: DuplexClient) -> None:
    first, second = opened.responses(), opened.responses()
    created(socket, "resp_1")
    audio(socket, "resp_1", b"\1\0")
    done(socket, "resp_1")
    for responses in (first, second):
        response = await anext(responses)
        assert [piece async for piece in response.audio()] == [b"\1\0"]


async def test_lost_connection_fails_the_open_response(socket: Any, opened: DuplexClient) -> None:
    responses = opened.responses()
    created(socket, "resp_1")
    response = await anext(responses)
    socket.breaks(ClientConnectionError("cable"))
    with pytest.raises(ClientConnectionError):
        await response.wait()
    with pytest.raises(ClientConnectionError):
        await anext(response.audio())


async def test_metadata_of_the_response_is_kept(socket: Any, opened: DuplexClient) -> None:
    responses = opened.responses()
    socket.says(
        "response.created",
        response_id="resp_1",
        response=body("resp_1") | {"metadata": {"topic": "tea"}},
    )
    response = await anext(responses)
    assert response.metadata == {"topic": "tea"}
    assert response.item_id == "item_resp_1"
