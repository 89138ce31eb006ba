"""`duplex serve --plugin local --llm vllm:PATH`: spoken to, over a socket."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from duplex_plugin_local.speech import say
from duplex_sdk.audio import PcmChunk, float_to_pcm16, resample
from duplex_sdk.cli.server_process import ServerProcess
from duplex_sdk.clients import DuplexClient
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    ResponseDone,
    SessionClosed,
    TranscriptDelta,
)
from duplex_sdk.stage.worker.descendants import shared_memory_of
from patience import eventually
from processes import descendants, runs
from tiny_checkpoints import talking_model

RATE_HZ = 16_000
SENTENCES = [
    "I have heard you.",
    "This is the second sentence.",
    "And this is the third one.",
    "Here comes the fourth.",
    "The fifth is short.",
    "Six is the last.",
]
WHOLE = " ".join(SENTENCES)


@pytest.fixture(scope="module")
async def server(
    vllm_python: Path, vllm_environment: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ServerProcess]:
    """A server whose replies come from a chat model's folder."""
    folder = tmp_path_factory.mktemp("talking-model")
    talking_model(folder, SENTENCES)
    settings = {
        "worker_python": vllm_python,
        "vllm.enforce_eager": "true",
        "vllm.max_model_len": "1024",
        "max_batch": "8",
        "options.at_limit": "end",
    }
    stage = (f"--stage=reply.{name}={value}" for name, value in settings.items())
    local = ("--plugin", "local", "--llm", f"vllm:{folder}", "--device", "cpu")
    async with ServerProcess(*local, *stage) as server:
        yield server


@pytest.fixture(scope="module")
def question() -> bytes:
    samples, rate = say("What is seven plus five?")
    return float_to_pcm16(resample(PcmChunk.of(samples, rate), RATE_HZ).numpy())


class Conversation:
    """A client and what it hears."""

    def __init__(self, client: DuplexClient) -> None:
        self.client = client
        self.events = client.events(size=4096)

    async def ask(self, speech: bytes) -> None:
        await self.client.append_audio(speech)
        await self.client.commit(response_create=True)

    async def until(self, kind: type[DuplexEvent]) -> tuple[Any, str]:
        """The next event of a kind, and what was said until then."""
        said = ""
        async with asyncio.timeout(60):
            async for event in self.events:
                if isinstance(event, TranscriptDelta):
                    said += event.delta
                if isinstance(event, kind):
                    return event, said
        raise AssertionError("the session ended")


async def test_it_answers_what_was_asked_aloud(server: ServerProcess, question: bytes) -> None:
    async with DuplexClient(server.url, {"turn_detection": None}) as client:
        talk = Conversation(client)
        for _ in range(2):
            await talk.ask(question)
            done, said = await talk.until(ResponseDone)
            assert done.response.status == "completed"
            assert said == WHOLE


async def test_an_interrupted_answer_stops_and_the_next_one_is_whole(
    server: ServerProcess, question: bytes
) -> None:
    async with DuplexClient(server.url, {"turn_detection": None}) as client:
        talk = Conversation(client)
        await talk.ask(question)
        await talk.until(AudioDelta)
        await client.cancel_response()
        done, _ = await talk.until(ResponseDone)
        assert done.response.status == "cancelled"
        await talk.ask(question)
        done, said = await talk.until(ResponseDone)
        assert (done.response.status, said) == ("completed", WHOLE)


async def test_sessions_are_answered_at_once(server: ServerProcess, question: bytes) -> None:
    async def one() -> str:
        async with DuplexClient(server.url, {"turn_detection": None}) as client:
            talk = Conversation(client)
            await talk.ask(question)
            return (await talk.until(ResponseDone))[1]

    assert await asyncio.gather(*(one() for _ in range(4))) == [WHOLE] * 4


async def test_a_talk_that_is_too_long_ends_alone(server: ServerProcess, question: bytes) -> None:
    async with DuplexClient(server.url, {"turn_detection": None}) as other:
        beside = Conversation(other)
        async with DuplexClient(server.url, {"turn_detection": None}) as client:
            talk = Conversation(client)
            # Each of its letters is a token to this model.
            await client.send_text("a" * 1500)
            await client.create_response()
            closed, said = await talk.until(SessionClosed)
            assert (closed.reason, said) == ("runtime_failed", "")
        await beside.ask(question)
        assert (await beside.until(ResponseDone))[1] == WHOLE


async def test_chat_completions_are_answered_by_the_same_model(server: ServerProcess) -> None:
    body = {"model": "local", "messages": [{"role": "user", "content": "Hello."}]}
    base = server.url.replace("ws://", "http://")
    async with httpx.AsyncClient(base_url=base, timeout=60) as http:
        answer = (await http.post("/v1/chat/completions", json=body)).json()
        health = (await http.get("/health")).json()
    assert answer["choices"][0]["message"]["content"] == WHOLE
    reply = next(stage for stage in health["stages"] if stage["id"] == "reply")
    assert [replica["state"] for replica in reply["replicas"]] == ["ready"]


async def test_a_server_that_is_killed_leaves_no_process_and_no_file_behind(
    server: ServerProcess,
) -> None:
    ours = descendants(server.pid)
    shared = shared_memory_of(server.pid)
    assert any("EngineCore" in command for command in ours.values()), "vLLM's own processes"
    assert shared, "what they talk through"
    os.kill(server.pid, signal.SIGKILL)
    await eventually(lambda: not any(map(runs, ours)))
    await eventually(lambda: not any(map(os.path.exists, shared)))
