"""``POST /v1/chat/completions`` on a real server: each request is a short session."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import socket
import wave
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.testing.session_lab import tone
from duplex_server.serving import ServingOptions
from duplex_server.testing import Harness, RunningServer
from patience import PATIENCE_S, eventually

ROUTE = "/v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "how are you?"}]}
ANSWER = {"text": "very well thanks", "ms": 300, "delay_ms": 0}
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhg"
    "GAWjR9awAAAABJRU5ErkJggg=="
)


def server_with(
    script: dict[str, Any] | None = None, *, max_body: int = 2**20, **limits: Any
) -> Any:
    whole = {"turns": "commit", "pace": "burst", "answers": [ANSWER]} | (script or {})
    return Harness().server(
        "scripted",
        {"script": whole},
        limits=DuplexSessionRuntimeConfig(**{"max_sessions": 2} | limits),
        serving=ServingOptions(max_frame_bytes=max_body),
    )


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    async with server_with() as running:
        yield running


def client_of(server: RunningServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url.replace("ws", "http", 1), timeout=PATIENCE_S)


async def ask(server: RunningServer, body: Any) -> httpx.Response:
    async with client_of(server) as client:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await client.post(ROUTE, content=content)


def chunks_of(response: httpx.Response) -> list[Any]:
    assert response.headers["content-type"].startswith("text/event-stream")
    lines = response.text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def wav(ms: int, rate: int = 16_000, channels: int = 1, width: int = 2) -> str:
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        samples = tone(ms, rate)
        if channels == 2:
            pairs = [samples[i : i + 2] * 2 for i in range(0, len(samples), 2)]
            samples = b"".join(pairs)
        file.writeframes(samples)
    return base64.b64encode(target.getvalue()).decode()


def spoken(data: str, kind: str = "wav") -> dict[str, Any]:
    part = {"type": "input_audio", "input_audio": {"data": data, "format": kind}}
    return {"messages": [{"role": "user", "content": [part]}]}


async def nobody_is_left(server: RunningServer) -> None:
    await eventually(lambda: not server.omni.health().slots_used)


async def test_text_is_answered_by_text_and_the_session_ends(server: RunningServer) -> None:
    response = await ask(server, ASK | {"model": "scripted", "temperature": 0.5, "n": 1})
    assert response.status_code == 200
    answer = response.json()
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "scripted"
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == "very well thanks"
    assert choice["message"]["role"] == "assistant"
    assert "audio" not in choice["message"]
    assert choice["finish_reason"] == "stop"
    assert server.omni.health().slots_used == 0


async def test_the_openai_client_reads_both_kinds_of_answer(server: RunningServer) -> None:
    openai = pytest.importorskip("openai")
    base = server.url.replace("ws", "http", 1) + "/v1"
    async with openai.AsyncOpenAI(api_key="k", base_url=base, max_retries=0) as client:
        whole = await client.chat.completions.create(model="scripted", messages=ASK["messages"])
        assert whole.choices[0].message.content == "very well thanks"
        stream = await client.chat.completions.create(
            model="scripted", messages=ASK["messages"], stream=True
        )
        text = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(text) == "very well thanks"


async def test_a_stream_has_one_chunk_per_delta_and_a_reason(server: RunningServer) -> None:
    response = await ask(server, ASK | {"stream": True, "stream_options": {"include_usage": True}})
    chunks = chunks_of(response)
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    text = [choice["delta"].get("content", "") for choice in choices]
    assert "".join(text) == "very well thanks"
    assert len([piece for piece in text if piece]) == 3
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["stop"]
    assert chunks[-1]["choices"] == []
    assert "usage" in chunks[-1]
    assert server.omni.health().slots_used == 0


@pytest.mark.parametrize("kind", ["wav", "pcm16"])
async def test_an_answer_is_spoken_when_asked_for(server: RunningServer, kind: str) -> None:
    wanted = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": kind}}
    message = (await ask(server, ASK | wanted)).json()["choices"][0]["message"]
    assert message["content"] is None
    assert message["audio"]["transcript"] == "very well thanks"
    data = base64.b64decode(message["audio"]["data"])
    if kind == "wav":
        with wave.open(io.BytesIO(data)) as file:
            assert (file.getframerate(), file.getnchannels()) == (24_000, 1)
            data = file.readframes(file.getnframes())
    assert len(data) == 300 * 48


async def test_a_spoken_answer_is_streamed_as_pcm(server: RunningServer) -> None:
    wanted = {"stream": True, "modalities": ["audio"], "audio": {"voice": "a", "format": "pcm16"}}
    chunks = chunks_of(await ask(server, ASK | wanted))
    deltas = [chunk["choices"][0]["delta"].get("audio", {}) for chunk in chunks]
    pcm = b"".join(base64.b64decode(delta.get("data", "")) for delta in deltas)
    assert len(pcm) == 300 * 48
    assert "".join(delta.get("transcript", "") for delta in deltas) == "very well thanks"


@pytest.mark.parametrize(
    "question",
    [
        spoken(wav(500)),
        spoken(wav(500, rate=44_100, channels=2)),
        spoken(base64.b64encode(tone(500, 24_000)).decode(), "pcm16"),
    ],
)
async def test_a_spoken_question_reaches_the_model(question: dict[str, Any]) -> None:
    async with server_with({"answers": [{"heard": True, "ms": 100, "delay_ms": 0}]}) as server:
        response = await ask(server, question)
        assert response.status_code == 200, response.text
        text = response.json()["choices"][0]["message"]["content"]
        assert text.startswith("heard 500 ms, 8000 samples")


SILENCE = {"data": base64.b64encode(tone(300, 24_000, level=0.0)).decode(), "format": "pcm16"}
UNHEARD = {"role": "user", "content": [{"type": "input_audio", "input_audio": SILENCE}]}
HALF_A_SAMPLE = spoken("AAAA", "pcm16")["messages"][0]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "messages",
    [
        [UNHEARD],
        [HALF_A_SAMPLE],
        [*ASK["messages"], UNHEARD],
        [UNHEARD, UNHEARD],
        [{"role": "user", "content": [{"type": "text", "text": "well?"}, *UNHEARD["content"]]}],
    ],
)
async def test_a_question_in_which_nothing_is_said_is_answered_too(
    server: RunningServer, messages: list[Any], stream: bool
) -> None:
    response = await ask(server, {"messages": messages, "stream": stream})
    assert response.status_code == 200, response.text
    assert "very" in response.text
    assert server.omni.health().slots_used == 0


async def test_what_was_said_after_a_silence_is_heard() -> None:
    async with server_with({"answers": [{"heard": True, "ms": 100, "delay_ms": 0}]}) as server:
        question = {"messages": [UNHEARD, *spoken(wav(500))["messages"]]}
        text = (await ask(server, question)).json()["choices"][0]["message"]["content"]
        assert text.startswith("heard 500 ms, 8000 samples")


async def test_what_the_system_says_first_are_the_instructions() -> None:
    script = {"answers": [{"instructions": True, "ms": 100, "delay_ms": 0}]}
    async with server_with(script) as server:
        system = [{"role": "system", "content": "be"}, {"role": "developer", "content": "brief"}]
        response = await ask(server, {"messages": system + ASK["messages"]})
        assert response.json()["choices"][0]["message"]["content"] == "be\n\nbrief"


async def test_a_long_conversation_and_a_picture_are_taken(server: RunningServer) -> None:
    messages: list[dict[str, Any]] = []
    for count in range(400):
        messages.append({"role": "user", "content": f"question {count}"})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": "answer"}]})
    picture = {"type": "image_url", "image_url": {"url": PIXEL}}
    messages.append({"role": "user", "content": [{"type": "text", "text": "what?"}, picture]})
    response = await ask(server, {"messages": messages})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    ("changes", "code", "param"),
    [
        ({"n": 2}, "unsupported", "n"),
        ({"logprobs": True}, "unsupported", "logprobs"),
        ({"top_logprobs": 3}, "unsupported", "top_logprobs"),
        (
            {"tools": [{"type": "function", "function": {"name": "look"}}]},
            "unsupported",
            "tools",
        ),
        ({"functions": [{}]}, "unsupported", "functions"),
        ({"response_format": {"type": "json_object"}}, "unsupported", "response_format"),
        ({"modalities": ["video"]}, "bad_event", "modalities"),
        ({"modalities": ["audio"], "audio": {"format": "mp3"}}, "unsupported_audio_format", None),
        (
            {"modalities": ["audio"], "audio": {"format": "wav"}, "stream": True},
            "unsupported_audio_format",
            "audio.format",
        ),
        ({"messages": []}, "bad_event", "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "bad_event", "messages"),
        ({"messages": ["x"]}, "bad_event", "messages[0]"),
        ({"messages": [{"role": "function"}]}, "unsupported", "messages[0].role"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "bad_event", "messages[0]"),
        (
            {"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]},
            "unsupported",
            "tools",
        ),
        ({"messages": [{"role": "user"}]}, "unsupported", "messages[0].content"),
        (
            {"messages": [{"role": "assistant", "tool_calls": 7}]},
            "invalid_tools",
            "messages[0].tool_calls",
        ),
        ({"stream": "yes"}, "bad_event", "stream"),
        (spoken("!!"), "bad_audio", None),
        (spoken(base64.b64encode(b"RIFF").decode()), "bad_audio", None),
        (spoken(wav(20, width=1)), "unsupported_audio_format", None),
        (spoken("AAAA", "mp3"), "unsupported_audio_format", None),
        ({"temperature": "hot"}, "invalid_session_config", None),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
            "invalid_image",
            None,
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_refusals_name_the_field_and_open_nothing_for_long(
    server: RunningServer, changes: dict[str, Any], code: str, param: str | None, stream: bool
) -> None:
    if stream and changes.get("modalities") == ["audio"] and changes["audio"]["format"] == "mp3":
        param = "audio.format"
    response = await ask(server, ASK | ({"stream": True} if stream else {}) | changes)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["code"] == code
    if param is not None:
        assert error["param"] == param
    await nobody_is_left(server)


async def test_other_refusals_have_their_status(server: RunningServer) -> None:
    assert (await ask(server, b"{")).json()["error"]["code"] == "invalid_json"
    assert (await ask(server, b"[]")).status_code == 400
    unknown = await ask(server, ASK | {"model": "gpt"})
    assert (unknown.status_code, unknown.json()["error"]["param"]) == (404, "model")
    large = await ask(server, b" " * (2**20 + 1))
    assert (large.status_code, large.json()["error"]["code"]) == (413, "event_too_large")


async def test_a_full_server_says_when_to_come_back(server: RunningServer) -> None:
    held = [await server.omni.open_session() for _ in range(2)]
    response = await ask(server, ASK)
    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) > 0
    assert response.json()["error"]["code"] == "resource_exhausted"
    for handle in held:
        await handle.close()
    assert (await ask(server, ASK)).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_fails_is_an_error_and_no_answer(stream: bool) -> None:
    script = {"faults": [{"where": "step", "nth": 1, "do": "raise"}]}
    async with server_with(script) as server:
        response = await ask(server, ASK | {"stream": stream})
        if stream and response.status_code == 200:
            assert "error" in chunks_of(response)[-1]
        else:
            assert response.status_code == 500
            assert response.json()["error"]["code"]
        await nobody_is_left(server)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_takes_its_session_with_it(stream: bool) -> None:
    script = {"pace": "realtime", "answers": [ANSWER | {"ms": 60_000}]}
    async with server_with(script) as server:
        address = server.url.removeprefix("ws://").split(":")
        body = json.dumps(ASK | {"stream": stream}).encode()
        with socket.create_connection((address[0], int(address[1]))) as raw:
            head = f"POST {ROUTE} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            raw.sendall(head.encode() + body)
            await eventually(lambda: server.omni.health().slots_used > 0)
            await asyncio.sleep(0.1)
        await nobody_is_left(server)


async def test_a_model_that_only_listens_refuses(start_server: Any, engine: Any) -> None:
    async with start_server(engine) as server, httpx.AsyncClient() as client:
        response = await client.post(server.url(ROUTE, "http"), json=ASK)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "unsupported"
