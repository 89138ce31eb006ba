"""The ``openai`` package's chat completions, unmodified, on servers with sessions and without."""

from __future__ import annotations

import base64
import io
import wave
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import RATE_HZ, Server, serving
from openai import OpenAI

ADD: Any = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What is two plus three?"},
]


@pytest.fixture(scope="module", params=["duplex", "turn"])
def local(request: pytest.FixtureRequest) -> Iterator[Server]:
    yield from serving("--plugin", "local", "--session-mode", request.param)


@pytest.fixture
def client(local: Server) -> Iterator[OpenAI]:
    with OpenAI(api_key="unused", base_url=local.http_url, max_retries=0) as client:
        yield client
    local.wait_until_empty()


def test_whole_answer(client: OpenAI) -> None:
    answer = client.chat.completions.create(model="local", messages=ADD)
    (choice,) = answer.choices
    assert (choice.message.role, choice.finish_reason) == ("assistant", "stop")
    assert choice.message.content == "2 plus 3 is 5."


def test_streamed_answer(client: OpenAI) -> None:
    with client.chat.completions.create(model="local", messages=ADD, stream=True) as chunks:
        choices = [chunk.choices[0] for chunk in chunks]
    assert "".join(choice.delta.content or "" for choice in choices) == "2 plus 3 is 5."
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]


def test_spoken_question_and_spoken_answer(client: OpenAI, question: bytes) -> None:
    said = {"data": wav(question), "format": "wav"}
    answer = client.chat.completions.create(
        model="local",
        messages=[{"role": "user", "content": [{"type": "input_audio", "input_audio": said}]}],
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": "wav"},
    )
    audio = answer.choices[0].message.audio
    assert audio is not None
    assert len(audio.transcript) > 3
    with wave.open(io.BytesIO(base64.b64decode(audio.data))) as heard:
        assert heard.getframerate() == RATE_HZ
        assert heard.getnframes() > RATE_HZ // 2


def wav(pcm: bytes) -> str:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE_HZ)
        writer.writeframes(pcm)
    return base64.b64encode(file.getvalue()).decode()
