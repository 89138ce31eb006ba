"""The ``openai-agents`` package's realtime session, unmodified."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from patience import PATIENCE_S

RATE_HZ = 24_000
CHUNK_BYTES = RATE_HZ // 10 * 2
SILENCE = bytes(RATE_HZ * 2)


class Listener:
    """Keeps what the session tells the application."""

    def __init__(self, session: RealtimeSession) -> None:
        self.session = session
        self.seen: list[Any] = []
        self._stream = aiter(session)

    async def until(self, kind: str, timeout_s: float = PATIENCE_S) -> Any:
        async with asyncio.timeout(timeout_s):
            while True:
                event = await anext(self._stream)
                self.seen.append(event)
                assert event.type != "error", event.error
                if event.type == kind:
                    return event

    def raw(self, kind: str) -> list[Any]:
        return [e.data for e in self.seen if e.type == "raw_model_event" and e.data.type == kind]

    def count(self, kind: str) -> int:
        return sum(e.type == kind for e in self.seen)

    async def say(self, pcm: bytes) -> None:
        start = time.monotonic()
        for offset in range(0, len(pcm), CHUNK_BYTES):
            chunk = pcm[offset : offset + CHUNK_BYTES]
            due = start + (offset + len(chunk)) / (2 * RATE_HZ)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self.session.send_audio(chunk)


@pytest.fixture
async def agent(server: Any) -> AsyncIterator[Listener]:
    runner = RealtimeRunner(RealtimeAgent(name="Guide", instructions="Be brief."))
    config: Any = {"url": server.realtime_url, "api_key": "unused"}
    async with await runner.run(model_config=config) as session:
        yield Listener(session)


async def test_spoken_turn_is_heard_and_answered(agent: Listener, question: bytes) -> None:
    speaking = asyncio.create_task(agent.say(question + SILENCE))
    await agent.until("agent_end")
    await speaking
    audio = b"".join(e.audio.data for e in agent.seen if e.type == "audio")
    assert len(audio) == 2 * RATE_HZ * 2
    assert agent.count("audio_end") == 1
    assert agent.count("audio_interrupted") == 0
    heard = agent.raw("input_audio_transcription_completed")
    assert [event.transcript for event in heard] == ["input 1"]


async def test_written_turn_is_answered_by_voice(agent: Listener) -> None:
    await agent.session.send_message("hello")
    await agent.until("agent_end")
    assert agent.count("audio") > 0


async def test_two_turns_follow_each_other(agent: Listener, question: bytes) -> None:
    for _ in range(2):
        speaking = asyncio.create_task(agent.say(question + SILENCE))
        await agent.until("agent_end")
        await speaking
        await asyncio.sleep(2.0)  # the client's own clock has the answer still playing
    assert agent.count("agent_start") >= 2
    assert agent.count("audio_end") == 2


async def test_speech_over_the_answer_interrupts_it(
    agent: Listener, question: bytes, interruption: bytes
) -> None:
    speaking = asyncio.create_task(agent.say(question + SILENCE[:RATE_HZ]))
    await agent.until("audio")
    await speaking
    speaking = asyncio.create_task(agent.say(interruption))
    await agent.until("audio_interrupted")
    await agent.until("agent_end")
    interrupted = next(e for e in agent.seen if e.type == "audio_interrupted")
    at = agent.seen.index(interrupted)
    late = [e for e in agent.seen[at:] if e.type == "audio" and e.item_id == interrupted.item_id]
    await speaking
    assert late == []


async def test_interrupt_of_the_application_stops_the_answer(agent: Listener) -> None:
    await agent.session.send_message("hello")
    await agent.until("audio")
    await agent.session.interrupt()
    await agent.until("audio_interrupted")
    await agent.until("agent_end")


async def test_manual_turn_is_committed_and_answered(agent: Listener, question: bytes) -> None:
    await agent.session.send_audio(question, commit=True)
    await agent.session.send_message("and what do you say to that?")
    await agent.until("agent_end")
    assert agent.count("audio_end") >= 1


async def test_leaving_frees_the_slot(server: Any) -> None:
    runner = RealtimeRunner(RealtimeAgent(name="Guide"))
    config: Any = {"url": server.realtime_url, "api_key": "unused"}
    async with await runner.run(model_config=config) as session:
        listener = Listener(session)
        await listener.session.send_message("hello")
        await listener.until("agent_end")
    await asyncio.to_thread(server.wait_until_empty)
