from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
from duplex_sdk.clients import (
    ClientSessionClosedError,
    DuplexClient,
    OverflowPolicy,
    SubscriberOverflowError,
)
from duplex_sdk.protocol.duplex import InputCleared, SpeechStarted, SpeechStopped


@pytest.fixture
async def opened(socket: Any, client: DuplexClient) -> AsyncIterator[DuplexClient]:
    socket.says_created()
    await client.open()
    yield client
    socket.says("session.closed", session_id="s", epoch=0, reason="client_close", event={})
    await client.close()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_each_listener_gets_every_event(socket: Any, opened: DuplexClient) -> None:
    first, second = opened.events(), opened.events()
    socket.says("input_audio_buffer.speech_started", audio_start_ms=10, item_id="item_1", epoch=0)
    assert await anext(first) == await anext(second)


async def test_listener_hears_only_what_follows_its_call(socket: Any, opened: DuplexClient) -> None:
    socket.says("input_audio_buffer.cleared")
    await settle()
    late = opened.events()
    socket.says("input_audio_buffer.speech_stopped", audio_end_ms=10, item_id="item_1")
    assert isinstance(await anext(late), SpeechStopped)


async def test_wait_for_passes_over_other_events(socket: Any, opened: DuplexClient) -> None:
    waiting = asyncio.create_task(opened.wait_for((SpeechStarted, SpeechStopped)))
    await settle()
    socket.says("input_audio_buffer.cleared")
    socket.says("input_audio_buffer.speech_stopped", audio_end_ms=10, item_id="item_1")
    assert isinstance(await waiting, SpeechStopped)


async def test_wait_for_raises_when_the_session_ends_first(
    socket: Any, opened: DuplexClient
) -> None:
    waiting = asyncio.create_task(opened.wait_for(SpeechStarted))
    await settle()
    socket.says("session.closed", session_id="s", epoch=0, reason="shutdown", event={})
    with pytest.raises(ClientSessionClosedError):
        await waiting


async def test_slow_listener_fails_alone(socket: Any, opened: DuplexClient) -> None:
    slow, brisk = opened.events(size=2), opened.events()
    for _ in range(5):
        socket.says("input_audio_buffer.cleared")
    await settle()
    assert len(brisk) == 5
    assert [await anext(slow), await anext(slow)] == [await anext(brisk), await anext(brisk)]
    with pytest.raises(SubscriberOverflowError):
        await anext(slow)


async def test_observer_that_may_miss_things_keeps_the_newest(
    socket: Any, opened: DuplexClient
) -> None:
    observer = opened.events(size=2, policy=OverflowPolicy.DROP_OLDEST)
    for ms in (1, 2, 3):
        socket.says("input_audio_buffer.speech_stopped", audio_end_ms=ms, item_id="i")
    await settle()
    kept = [await anext(observer), await anext(observer)]
    assert [event.audio_end_ms for event in kept] == [2, 3]  # type: ignore[attr-defined]
    assert observer.dropped == 1


async def test_unknown_and_broken_frames_are_passed_over(socket: Any, opened: DuplexClient) -> None:
    events = opened.events()
    socket.says("response.telepathy")
    socket.says_raw("{ not json")
    socket.says_raw("[]")
    socket.says("input_audio_buffer.cleared")
    assert isinstance(await anext(events), InputCleared)
    assert opened.skipped_frames == 3


async def test_stock_profile_never_hears_of_acknowledgements(socket: Any) -> None:
    client = DuplexClient("ws://there", duplex=False, socket_factory=socket.open)
    socket.says_created()
    async with client:
        socket.says("input_audio_buffer.cleared", server_event_seq=1)
        await settle()
        assert socket.sent_types() == ["session.update"]
        socket.breaks(ClientSessionClosedError("client_close"))


async def test_every_command_carries_an_id_of_its_own(socket: Any, opened: DuplexClient) -> None:
    receipts = [await opened.commit(), await opened.create_response(), await opened.clear_input()]
    ids = [receipt.event_id for receipt in receipts]
    assert len(set(ids)) == 3
    assert [frame["event_id"] for frame in socket.sent[-3:]] == ids
    assert await opened.send({"type": "anything", "event_id": "mine"}) == "mine"


async def test_audio_leaves_as_base64(socket: Any, opened: DuplexClient) -> None:
    await opened.append_audio(b"\1\2\3", sample_rate_hz=8000)
    frame = socket.sent[-1]
    assert base64.b64decode(frame["audio"]) == b"\1\2\3"
    assert frame["sample_rate_hz"] == 8000
    assert "is_speech" not in frame


async def test_helpers_say_what_the_protocol_wants(socket: Any, opened: DuplexClient) -> None:
    await opened.cancel_response("resp_1")
    await opened.truncate_item("item_1", 120)
    await opened.ack_playback(80, response_id="resp_1")
    await opened.send_text("hello")
    await opened.delete_item("item_1")
    await opened.retrieve_item("item_1")
    assert socket.sent_types()[-6:] == [
        "response.cancel",
        "conversation.item.truncate",
        "playback.ack",
        "conversation.item.create",
        "conversation.item.delete",
        "conversation.item.retrieve",
    ]
    truncate, ack = socket.sent[-5], socket.sent[-4]
    assert (truncate["audio_end_ms"], truncate["content_index"]) == (120, 0)
    assert (ack["played_ms"], ack["response_id"]) == (80, "resp_1")
