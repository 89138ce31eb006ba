"""The ``openai`` package's Realtime client, unmodified."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI
from patience import PATIENCE_S
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK

RATE_HZ = 24_000
CHUNK_BYTES = RATE_HZ // 10 * 2
SILENCE = bytes(RATE_HZ * 2)
LONG_ANSWER = {"answers": [{"text": "one two three four five six seven eight", "ms": 8000}]}
MANUAL = {"audio": {"input": {"turn_detection": None}}}

# The order of one spoken response, its deltas apart.
FRAME = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
]


class Conversation:
    """A connection whose every event is kept, in order."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.seen: list[Any] = []

    async def until(self, kind: str, timeout_s: float = PATIENCE_S) -> Any:
        async with asyncio.timeout(timeout_s):
            while True:
                event = await self.connection.recv()
                self.seen.append(event)
                if event.type == kind:
                    return event

    async def for_a_while(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self.seen.append(await self.connection.recv())
        except TimeoutError:
            return

    async def leave(self) -> None:
        """Close while reading: a close behind unread frames would wait for its own timeout."""
        await asyncio.gather(self.connection.close(), self._drain())

    async def _drain(self) -> None:
        try:
            while True:
                await self.connection.recv()
        except ConnectionClosed:
            return

    async def say(self, pcm: bytes) -> None:
        start = time.monotonic()
        for offset in range(0, len(pcm), CHUNK_BYTES):
            chunk = pcm[offset : offset + CHUNK_BYTES]
            due = start + (offset + len(chunk)) / (2 * RATE_HZ)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self.connection.input_audio_buffer.append(audio=base64.b64encode(chunk).decode())

    def types(self, response_id: str | None = None) -> list[str]:
        return [e.type for e in self.seen if response_id in (None, response_of(e))]


def response_of(event: Any) -> str | None:
    response = getattr(event, "response", None)
    if response is not None:
        return str(response.id)
    identity = getattr(event, "response_id", None)
    if identity is None and getattr(event, "item", None) is not None:
        identity = str(event.item.id).removeprefix("item_")
    return identity


@pytest.fixture
async def talk(server: Any) -> AsyncIterator[Conversation]:
    client = AsyncOpenAI(api_key="unused", base_url=server.http_url)
    async with client.realtime.connect(model="gpt-realtime") as connection:
        conversation = Conversation(connection)
        await conversation.until("session.created")
        yield conversation
        await conversation.leave()
    await client.close()


async def configure(talk: Conversation, **session: Any) -> Any:
    await talk.connection.session.update(session={"type": "realtime", **session})
    return await talk.until("session.updated")


async def test_spoken_turn_is_heard_and_answered(talk: Conversation, question: bytes) -> None:
    speaking = asyncio.create_task(talk.say(question + SILENCE))
    done = await talk.until("response.done")
    await speaking

    before = talk.types()
    heard = [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "response.created",
    ]
    assert [kind for kind in before if kind in heard] == heard
    assert done.response.status == "completed"
    assert [k for k in talk.types(done.response.id) if not k.endswith(".delta")] == FRAME
    audio = b"".join(
        base64.b64decode(e.delta) for e in talk.seen if e.type == "response.output_audio.delta"
    )
    assert len(audio) == 2 * RATE_HZ * 2


async def test_recorded_human_speech_is_a_turn(talk: Conversation, human: bytes) -> None:
    speaking = asyncio.create_task(talk.say(human + SILENCE))
    committed = await talk.until("input_audio_buffer.committed")
    started = next(e for e in talk.seen if e.type == "input_audio_buffer.speech_started")
    assert committed.item_id == started.item_id
    await talk.until("response.created")
    await speaking


async def test_manual_turn_is_answered_when_asked_for(talk: Conversation, question: bytes) -> None:
    updated = await configure(talk, **MANUAL)
    assert updated.session.audio.input.turn_detection is None
    await talk.connection.input_audio_buffer.append(audio=base64.b64encode(question).decode())
    await talk.connection.input_audio_buffer.commit()
    committed = await talk.until("input_audio_buffer.committed")
    await talk.connection.response.create(response={"metadata": {"client_event_id": "mine"}})
    created = await talk.until("response.created")
    done = await talk.until("response.done")

    assert created.response.metadata == {"client_event_id": "mine"}
    assert done.response.status == "completed"
    assert any(
        e.type == "conversation.item.added" and e.item.id == committed.item_id for e in talk.seen
    )


async def test_text_turn_is_answered_by_voice(talk: Conversation) -> None:
    await talk.connection.conversation.item.create(
        item={
            "id": "item_of_mine",
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "hello"}],
        }
    )
    added = await talk.until("conversation.item.added")
    await talk.connection.response.create()
    done = await talk.until("response.done")
    assert added.item.id == "item_of_mine"
    assert done.response.output[0].content[0].type == "output_audio"
    assert done.response.output[0].content[0].transcript


async def test_speech_over_the_answer_silences_it(
    talk: Conversation, question: bytes, interruption: bytes
) -> None:
    await configure(talk, extra_body={"script": LONG_ANSWER})
    speaking = asyncio.create_task(talk.say(question + SILENCE))
    await talk.until("response.output_audio.delta")
    await speaking
    speaking = asyncio.create_task(talk.say(interruption))
    done = await talk.until("response.done")
    answer = done.response.id
    cut_at = len(talk.seen)
    await talk.connection.conversation.item.truncate(
        item_id=f"item_{answer}", content_index=0, audio_end_ms=500
    )
    truncated = await talk.until("conversation.item.truncated")
    await talk.connection.conversation.item.retrieve(item_id=f"item_{answer}")
    kept = await talk.until("conversation.item.retrieved")
    await talk.for_a_while(0.5)
    await speaking

    assert done.response.status == "cancelled"
    assert done.response.status_details.reason == "turn_detected"
    assert truncated.audio_end_ms == 500
    assert len(kept.item.content[0].transcript) < len(LONG_ANSWER["answers"][0]["text"]) // 4
    after = [e for e in talk.seen[cut_at:] if getattr(e, "response_id", None) == answer]
    assert after == []


async def test_cancel_ends_the_answer_at_once(talk: Conversation, question: bytes) -> None:
    await configure(talk, **MANUAL, extra_body={"script": LONG_ANSWER})
    await talk.connection.input_audio_buffer.append(audio=base64.b64encode(question).decode())
    await talk.connection.input_audio_buffer.commit()
    await talk.connection.response.create()
    await talk.until("response.output_audio.delta")
    await talk.connection.response.cancel()
    done = await talk.until("response.done")
    cut_at = len(talk.seen)
    await talk.for_a_while(0.5)
    assert done.response.status == "cancelled"
    assert done.response.status_details.reason == "client_cancelled"
    assert "response.output_audio.delta" not in [e.type for e in talk.seen[cut_at:]]


async def test_second_create_is_refused_and_the_answer_goes_on(talk: Conversation) -> None:
    await talk.connection.response.create()
    first = await talk.until("response.created")
    await talk.connection.response.create(event_id="again")
    refused = await talk.until("error")
    done = await talk.until("response.done")
    assert refused.error.code == "conversation_already_has_active_response"
    assert refused.error.event_id == "again"
    assert (done.response.id, done.response.status) == (first.response.id, "completed")


async def test_needless_cancel_is_a_mild_error(talk: Conversation) -> None:
    await talk.connection.response.cancel(event_id="needless")
    refused = await talk.until("error")
    assert refused.error.code == "response_cancel_not_active"
    assert refused.error.message.startswith("Cancellation failed")
    assert refused.error.event_id == "needless"


async def test_only_events_of_openai_arrive(talk: Conversation, question: bytes) -> None:
    speaking = asyncio.create_task(talk.say(question + SILENCE))
    await talk.until("response.done")
    await speaking
    prefixes = ("session.", "input_audio_buffer.", "conversation.item.", "response.")
    ours = ("response.speak", "response.listen", "session.heartbeat_ack", "session.closed")
    for kind in talk.types():
        assert kind.startswith(prefixes) or kind == "rate_limits.updated"
        assert kind not in ours


async def test_closed_client_frees_its_slot(server: Any) -> None:
    client = AsyncOpenAI(api_key="unused", base_url=server.http_url)
    async with client.realtime.connect(model="gpt-realtime") as connection:
        await Conversation(connection).until("session.created")
        assert server.open_sessions() >= 1
    await client.close()
    await asyncio.to_thread(server.wait_until_empty)


async def test_session_that_ends_in_order_closes_with_1000(talk: Conversation) -> None:
    await talk.connection.send({"type": "session.close"})
    with pytest.raises(ConnectionClosedOK) as closed:
        await talk.until("no such event")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000
