"""Requests without a session on stages in processes: beside sessions, and while workers die."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest
from duplex_sdk.protocol.duplex import ResponseDone, TranscriptDelta
from duplex_server.entrypoints import AsyncOmni, DuplexSessionHandle, RequestFailedError, TurnModel
from duplex_server.stages import Deployment, ReplicaStatus, RestartPolicy
from duplex_server.testing import Harness
from patience import PATIENCE_S, eventually

MODELS = Path(__file__).parents[1] / "worker_models"
STAGES = ("text", "tone", "codec")
WORDS = "one two three"
SPEECH = os.urandom(3_200)
DEPLOYMENT = Deployment(
    stages={name: {"backend": "process", "replicas": 2} for name in STAGES},
    device="cpu",
    restart=RestartPolicy((0.01,)),
)


@pytest.fixture
def three_stages(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(MODELS))
    monkeypatch.setenv("PYTHONPATH", str(MODELS))
    import three_stages

    return three_stages


@pytest.fixture
async def omni(three_stages: Any) -> AsyncIterator[AsyncOmni]:
    model = TurnModel.load(three_stages.spec, deployment=DEPLOYMENT)
    async with model.async_omni() as running:
        yield running


def replicas(omni: AsyncOmni) -> list[ReplicaStatus]:
    return [status for stage in omni.health().stages for status in stage.replicas]


def is_whole(omni: AsyncOmni) -> bool:
    return all(status.state == "ready" for status in replicas(omni))


def holds_no_request(omni: AsyncOmni) -> bool:
    return omni.health().turn_requests == 0 and all(
        status.sessions == 0 for status in replicas(omni)
    )


async def ask(omni: AsyncOmni) -> str:
    text, ms = "", 0.0
    async with asyncio.timeout(PATIENCE_S), aclosing(omni.generate("count")) as answer:
        async for piece in answer:
            text += piece.text
            ms += 0.0 if piece.audio is None else piece.audio.duration_ms
    assert ms == 10 * len(text)
    return text


async def turn(handle: DuplexSessionHandle) -> str:
    """One turn of a session, and what it says."""
    handle.append_audio(SPEECH)
    handle.commit(response_create=True)
    text = ""
    async with asyncio.timeout(PATIENCE_S):
        async for event in handle.events():
            if isinstance(event, TranscriptDelta):
                text += event.delta
            elif isinstance(event, ResponseDone):
                assert event.response.status == "completed"
                return text
    raise AssertionError("the session ended")


async def test_requests_share_the_replicas_and_leave_nothing(omni: AsyncOmni) -> None:
    assert await asyncio.gather(*(ask(omni) for _ in range(32))) == [WORDS] * 32
    await eventually(lambda: holds_no_request(omni))


async def test_killed_replicas_end_only_what_was_bound_to_them(omni: AsyncOmni) -> None:
    """Many ask without pause while one worker after the other is killed, anywhere."""
    outcomes: Counter[str] = Counter()
    dice = random.Random(4)
    over = asyncio.Event()

    async def keep_asking() -> None:
        while not over.is_set():
            try:
                assert await ask(omni) == WORDS
                outcomes["answered"] += 1
            except RequestFailedError as error:
                outcomes[error.code] += 1
                await asyncio.sleep(0.01)

    askers = [asyncio.create_task(keep_asking()) for _ in range(12)]
    for _ in range(8):
        answered = outcomes["answered"]
        victim = dice.choice([status for status in replicas(omni) if status.pid is not None])
        assert victim.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.pid, signal.SIGKILL)
        await eventually(lambda before=answered: outcomes["answered"] > before + 12)
    over.set()
    await asyncio.gather(*askers)
    assert set(outcomes) <= {"answered", "runtime_failed", "resource_exhausted"}
    assert outcomes["answered"] > 100
    await eventually(lambda: is_whole(omni) and holds_no_request(omni))
    assert sum(status.restarts for status in replicas(omni)) >= 6


async def test_sessions_and_chat_requests_are_served_at_once(three_stages: Any) -> None:
    async with Harness().server(three_stages.spec, deployment=DEPLOYMENT) as server:
        omni = server.omni
        handles = [await omni.open_session() for _ in range(16)]
        url = server.url.replace("ws", "http", 1)
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:

            async def chat() -> str:
                body = {"messages": [{"role": "user", "content": "count"}]}
                answer = await client.post("/v1/chat/completions", json=body)
                return str(answer.json()["choices"][0]["message"]["content"])

            said = await asyncio.gather(
                *(turn(handle) for handle in handles), *(chat() for _ in range(24))
            )
        assert said == [WORDS] * 40
        assert omni.health().slots_used == 16
        await omni.close_all_sessions()
        await eventually(lambda: holds_no_request(omni))
