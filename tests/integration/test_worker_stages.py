"""A pipeline of three stages in processes, two replicas each, and what their deaths take along."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    ResponseDone,
    SessionClosed,
    TranscriptDelta,
)
from duplex_sdk.stage.worker.listener import WorkerListener
from duplex_sdk.testing.seeded_ids import SeededIds
from duplex_server.entrypoints import DuplexOmni, DuplexSessionError, DuplexSessionHandle
from duplex_server.serving.health import health_status
from duplex_server.stages import Deployment, ReplicaStatus, RestartPolicy
from duplex_server.testing import Harness
from patience import PATIENCE_S, eventually
from processes import children

MODELS = Path(__file__).parents[1] / "worker_models"
STAGES = ("text", "tone", "codec")
SESSIONS = 32
SPEECH = os.urandom(3_200)
SECRET = "what both machines know"
ANSWER_BYTES = 13 * 10 * 24 * 2
"""Thirteen letters of 10 ms at 24 kHz in pcm16."""


class Talk:
    """One session and the turns it had."""

    def __init__(self, handle: DuplexSessionHandle) -> None:
        self.handle = handle
        self.session_id = handle.session_id
        self._events = handle.events()
        self.closed: SessionClosed | None = None

    async def turn(self) -> str | None:
        """Ask and listen; the answer's text, None: the session ended instead."""
        try:
            self.handle.append_audio(SPEECH)
            self.handle.commit(response_create=True)
        except DuplexSessionError as error:
            if error.code != "session_closed":
                raise
        text, audio = "", 0
        async with asyncio.timeout(PATIENCE_S):
            async for event in self._events:
                if isinstance(event, TranscriptDelta):
                    text += event.delta
                elif isinstance(event, AudioDelta):
                    audio += len(event.delta)
                elif isinstance(event, ResponseDone) and event.response.status == "completed":
                    assert audio == ANSWER_BYTES
                    return text
                self._note(event)
        return None

    async def end(self) -> SessionClosed:
        """Read on until the session has ended."""
        async with asyncio.timeout(PATIENCE_S):
            async for event in self._events:
                self._note(event)
        assert self.closed is not None
        return self.closed

    def _note(self, event: DuplexEvent) -> None:
        if isinstance(event, SessionClosed):
            self.closed = event


def replicas(omni: DuplexOmni) -> list[ReplicaStatus]:
    return [status for pool in omni.engine.pools for status in pool.replicas]


def is_whole(omni: DuplexOmni) -> bool:
    return all(status.state == "ready" for status in replicas(omni))


def holds_nothing(omni: DuplexOmni) -> bool:
    """No session, slot, request or stage state is left."""
    orchestrator = omni.engine._orchestrator
    assert orchestrator is not None
    return (
        not omni.sessions
        and omni.health().slots_used == 0
        and orchestrator.request_count == 0
        and orchestrator.stream_count == 0
        and all(status.sessions == 0 for status in replicas(omni))
    )


@pytest.fixture
def three_stages(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(MODELS))
    monkeypatch.setenv("PYTHONPATH", str(MODELS))
    import three_stages

    return three_stages


@pytest.fixture
async def omni(three_stages: Any) -> AsyncIterator[DuplexOmni]:
    before = children()
    deployment = Deployment(
        stages={name: {"backend": "process", "replicas": 2} for name in STAGES},
        device="cpu",
        restart=RestartPolicy((0.01,)),
    )
    limits = DuplexSessionRuntimeConfig(max_sessions=2 * SESSIONS)
    async with Harness().engine(three_stages.spec, deployment=deployment, limits=limits) as running:
        assert len(children() - before) == 2 * len(STAGES)
        yield running
    assert children() <= before


async def talks(omni: DuplexOmni, count: int = SESSIONS) -> list[Talk]:
    """Sessions that had a turn, so that every stage holds state of each."""
    begun = [Talk(await omni.open_session()) for _ in range(count)]
    assert await asyncio.gather(*(talk.turn() for talk in begun)) == ["one two three"] * count
    return begun


async def close_all(begun: list[Talk]) -> None:
    await asyncio.gather(*(talk.handle.close() for talk in begun))


async def test_many_sessions_share_the_replicas_of_every_stage(omni: DuplexOmni) -> None:
    begun = await talks(omni)
    assert [status.sessions for status in replicas(omni)] == [SESSIONS // 2] * 6
    assert await asyncio.gather(*(talk.turn() for talk in begun)) == ["one two three"] * SESSIONS
    await close_all(begun)
    await eventually(lambda: holds_nothing(omni))


@pytest.mark.parametrize("stage_id", range(len(STAGES)), ids=STAGES)
async def test_a_killed_replica_ends_what_was_bound_to_it_and_nothing_else(
    omni: DuplexOmni, stage_id: int
) -> None:
    begun = await talks(omni)
    pool = omni.engine.pools[stage_id]
    victim = pool.replicas[1]
    bound = {talk.session_id for talk in begun if pool.replica_of(talk.session_id) == 1}
    assert len(bound) == SESSIONS // 2
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    for talk in begun:
        if talk.session_id in bound:
            assert (await talk.end()).reason == "runtime_failed"
    healthy = [talk for talk in begun if talk.session_id not in bound]
    answers = await asyncio.gather(*(talk.turn() for talk in healthy))
    assert answers == ["one two three"] * len(healthy)
    await eventually(lambda: is_whole(omni))
    assert pool.replicas[1].restarts == 1
    assert health_status(omni.health())[0] == "ok"
    # The restarted one is the emptier one now, so it is taken.
    again = Talk(await omni.open_session())
    assert await again.turn() == "one two three"
    assert pool.replica_of(again.session_id) == 1
    await close_all([again, *healthy])
    await eventually(lambda: holds_nothing(omni))


async def test_a_stopped_replica_is_found_by_its_silence(omni: DuplexOmni) -> None:
    begun = await talks(omni, 4)
    pool = omni.engine.pools[1]
    bound = [talk for talk in begun if pool.replica_of(talk.session_id) == 0]
    victim = pool.replicas[0].pid
    assert victim is not None
    began = time.monotonic()
    os.kill(victim, signal.SIGSTOP)
    for talk in bound:
        assert (await talk.end()).reason == "runtime_failed"
    # It may be silent for a while; a pause is not its death.
    assert time.monotonic() - began > 2.0
    await eventually(lambda: is_whole(omni))
    assert victim not in children()
    await close_all([talk for talk in begun if talk not in bound])
    await eventually(lambda: holds_nothing(omni))


SCRIPT = {
    "turns": "commit",
    "pace": "burst",
    "answers": [{"heard": True, "ms": 800}, {"text": "two words", "ms": 2500, "audio": "noise"}],
    "seed": 5,
}


def is_delta(event: DuplexEvent) -> bool:
    return isinstance(event, AudioDelta)


async def scripted_conversation(deployment: Deployment) -> list[tuple[str, Any]]:
    """What a session of two turns says, in order, with everything that is heard."""
    said: list[tuple[str, Any]] = []
    async with Harness().engine(
        "scripted", {"script": SCRIPT}, deployment=deployment, ids=SeededIds(1)
    ) as omni:
        handle = await omni.open_session()
        events = handle.events()
        for turn in range(2):
            handle.append_audio(bytes(range(256)) * 50, is_speech=True)
            handle.commit(response_create=True)
            async with asyncio.timeout(PATIENCE_S):
                async for event in events:
                    said.append((event.type, getattr(event, "delta", None)))
                    if isinstance(event, ResponseDone):
                        assert event.response.status == "completed", turn
                        break
        await handle.close()
    return said


@pytest.fixture
def lent_machine() -> Iterator[str]:
    """Where workers can be had from elsewhere, over TCP."""
    listening = socket.create_server(("127.0.0.1", 0))
    listener = WorkerListener(listening, SECRET, max_workers=1)
    serving = threading.Thread(target=listener.serve)
    serving.start()
    host, port = listening.getsockname()
    yield f"{host}:{port}"
    listener.close()
    serving.join()


async def test_wherever_it_runs_a_model_says_the_same_sample_for_sample(lent_machine: str) -> None:
    inline, process = [
        await scripted_conversation(Deployment(stages={"scripted": {"backend": backend}}))
        for backend in ("inline", "process")
    ]
    assert sum(len(delta or b"") for kind, delta in inline if kind.endswith("audio.delta")) > 10**5
    assert process == inline
    elsewhere = Deployment(stages={"scripted": {"workers": [lent_machine]}}, worker_secret=SECRET)
    assert await scripted_conversation(elsewhere) == inline


@pytest.mark.parametrize("where", ["open", "step", "close"])
async def test_a_model_that_ends_its_process_ends_its_sessions(where: str) -> None:
    deployment = Deployment(
        stages={"scripted": {"backend": "process", "replicas": 2}}, restart=RestartPolicy((0.01,))
    )
    faulty = {"script": {"faults": [{"where": where, "do": "die"}]}}
    async with Harness().engine("scripted", {"script": SCRIPT}, deployment=deployment) as omni:
        first = Talk(await omni.open_session({"extra_body": faulty}))
        first.handle.append_audio(SPEECH)
        first.handle.commit(response_create=True)
        if where == "close":
            # There is something to close once it said something.
            await anext(event async for event in first.handle.events() if is_delta(event))
            await first.handle.close()
        else:
            assert (await first.end()).reason == "runtime_failed"
        await eventually(lambda: sum(status.restarts for status in replicas(omni)) == 1)
        await eventually(lambda: is_whole(omni))
        await eventually(lambda: holds_nothing(omni))


async def test_a_crash_loop_makes_the_server_unhealthy_until_it_ends(
    three_stages: Any, tmp_path: Path
) -> None:
    marker = tmp_path / "out of memory"
    deployment = Deployment(
        stages={"tone": {"backend": "process", "options": {"die_at": str(marker)}}},
        restart=RestartPolicy((0.01,), stable_s=0.5),
    )
    async with Harness().engine(three_stages.spec, deployment=deployment) as omni:
        marker.touch()
        tone = omni.engine.pools[1]
        os.kill(tone.replicas[0].pid or 0, signal.SIGKILL)
        await eventually(lambda: health_status(omni.health())[0] == "failed")
        reason = health_status(omni.health())[1] or ""
        assert "stage tone keeps failing" in reason
        assert "SIGKILL" in reason
        with pytest.raises(DuplexSessionError, match="tone has no live replica"):
            await omni.open_session()
        marker.unlink()
        await eventually(lambda: health_status(omni.health())[0] == "ok")
        talk = Talk(await omni.open_session())
        assert await talk.turn() == "one two three"
        await talk.handle.close()
