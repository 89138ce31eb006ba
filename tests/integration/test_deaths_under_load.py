"""Sessions and chat completions at once on three stages in processes, while those are killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    ResponseDone,
    SessionClosed,
    TranscriptDelta,
)
from duplex_server.entrypoints import DuplexOmni, DuplexSessionError, DuplexSessionHandle
from duplex_server.stages import Deployment, ReplicaStatus, RestartPolicy
from duplex_server.testing import Harness, RunningServer
from patience import PATIENCE_S, eventually
from processes import children

MODELS = Path(__file__).parents[1] / "worker_models"
STAGES = ("text", "tone", "codec")
REPLICAS = 2
SESSIONS = 32
ASKERS = 6
WORDS = "one two three"
SPEECH = os.urandom(3_200)
ANSWER_BYTES = 13 * 10 * 24 * 2
"""Thirteen letters of 10 ms at 24 kHz in pcm16."""
CHAT_FAILURES = {"engine_error", "resource_exhausted"}
CHAT = {"stream": True, "messages": [{"role": "user", "content": "count"}]}

Place: TypeAlias = tuple[int, int]
"""Stage and replica."""


def places(omni: DuplexOmni) -> dict[Place, ReplicaStatus]:
    return {
        (pool.stage_id, status.id): status for pool in omni.engine.pools for status in pool.replicas
    }


def restarts(omni: DuplexOmni) -> dict[Place, int]:
    return {place: status.restarts for place, status in places(omni).items()}


def is_whole(omni: DuplexOmni) -> bool:
    return all(status.state == "ready" for status in places(omni).values())


def holds_nothing(omni: DuplexOmni) -> bool:
    """No session, slot, request or stage state is left."""
    orchestrator = omni.engine._orchestrator
    assert orchestrator is not None
    return (
        not omni.sessions
        and omni.health().slots_used == 0
        and omni.health().turn_requests == 0
        and orchestrator.request_count == 0
        and orchestrator.stream_count == 0
        and all(status.sessions == 0 for status in places(omni).values())
    )


class Talk:
    """One session, the turns it had, and the replicas that it is known to be bound to.

    Attributes:
        bound: each of its replicas, with how often that one had been restarted when this session
            last heard from it; known once a turn was answered.
        ended: why the session ended before it was closed from here.
    """

    def __init__(self, omni: DuplexOmni, handle: DuplexSessionHandle) -> None:
        self.handle = handle
        self.bound: dict[Place, int] = {}
        self.ended: str | None = None
        self._omni = omni
        self._events = handle.events()

    async def turn(self) -> bool:
        """Ask and hear the whole answer; False: the session ended instead."""
        before = restarts(self._omni)
        try:
            self.handle.append_audio(SPEECH)
            self.handle.commit(response_create=True)
        except DuplexSessionError as error:
            if error.code != "session_closed":
                raise
        async with asyncio.timeout(PATIENCE_S):
            text, audio = "", 0
            async for event in self._events:
                if isinstance(event, ResponseDone) and event.response.status == "completed":
                    assert (text, audio) == (WORDS, ANSWER_BYTES)
                    self._note_bound(before)
                    return True
                self._note_end(event)
                text += event.delta if isinstance(event, TranscriptDelta) else ""
                audio += len(event.delta) if isinstance(event, AudioDelta) else 0
        assert self.ended is not None
        return False

    def _note_bound(self, before: dict[Place, int]) -> None:
        for pool in self._omni.engine.pools:
            replica_id = pool.replica_of(self.handle.session_id)
            if replica_id is not None:
                place = (pool.stage_id, replica_id)
                self.bound[place] = before[place]

    def _note_end(self, event: DuplexEvent) -> None:
        if isinstance(event, SessionClosed):
            self.ended = event.reason


@dataclass
class Load:
    """Sessions that talk on and on and are opened again when a death ended them; and chat."""

    server: RunningServer
    turns: int = 0
    chats: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    over: bool = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        url = self.server.url.replace("ws", "http", 1)
        async with (
            httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(SESSIONS):
                group.create_task(self._talk_on())
            for _ in range(ASKERS):
                group.create_task(self._chat_on(client))
            try:
                yield
            finally:
                self.over = True

    async def _talk_on(self) -> None:
        omni = self.server.omni
        while not self.over:
            try:
                talk = Talk(omni, await omni.open_session())
            except DuplexSessionError as error:
                # Both replicas of a stage were away at once.
                if error.code != "failed_precondition":
                    raise
                await asyncio.sleep(0.01)
                continue
            while not self.over and await talk.turn():
                self.turns += 1
            if talk.ended is not None:
                self.ended[talk.ended] += 1
                await self._check_it_lost_a_replica(talk)
            await talk.handle.close()

    async def _check_it_lost_a_replica(self, talk: Talk) -> None:
        """A session ends only when a replica that it was bound to has died."""
        if talk.bound:
            assert len(talk.bound) == len(STAGES)
            await eventually(
                lambda: any(restarts(self.server.omni)[p] > n for p, n in talk.bound.items())
            )

    async def _chat_on(self, client: httpx.AsyncClient) -> None:
        while not self.over:
            outcome = await _chat(client)
            self.chats[outcome] += 1
            if outcome != "answered":
                await asyncio.sleep(0.01)


async def _chat(client: httpx.AsyncClient) -> str:
    """A streamed chat completion: ``answered``, or the code of its failure."""
    said, code = "", None
    async with client.stream("POST", "/v1/chat/completions", json=CHAT) as answer:
        if answer.status_code != 200:
            return str(json.loads(await answer.aread())["error"]["code"])
        lines = [line.removeprefix("data: ") async for line in answer.aiter_lines() if line]
    assert lines.pop() == "[DONE]"
    for document in map(json.loads, lines):
        if "error" in document:
            code = document["error"]["code"]
            continue
        for choice in document["choices"]:
            said += choice["delta"].get("content") or ""
    assert code is not None or said == WORDS
    return code or "answered"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RunningServer]:
    monkeypatch.syspath_prepend(str(MODELS))
    monkeypatch.setenv("PYTHONPATH", str(MODELS), prepend=os.pathsep)
    import three_stages

    before = children()
    deployment = Deployment(
        stages={name: {"backend": "process", "replicas": REPLICAS} for name in STAGES},
        device="cpu",
        restart=RestartPolicy((0.01,)),
    )
    limits = DuplexSessionRuntimeConfig(max_sessions=2 * SESSIONS)
    async with Harness().server(three_stages.spec, deployment=deployment, limits=limits) as running:
        assert len(children() - before) == REPLICAS * len(STAGES)
        yield running
        await eventually(lambda: len(children() - before) == REPLICAS * len(STAGES))
    assert children() <= before


async def end_one(omni: DuplexOmni, dice: random.Random, how: signal.Signals) -> None:
    victim = dice.choice([each for each in places(omni).values() if each.pid is not None])
    assert victim.pid is not None
    with contextlib.suppress(ProcessLookupError):
        # The one before may not have been missed yet.
        os.kill(victim.pid, how)


async def end_many(load: Load, kills: int, stops: int) -> list[float]:
    """Kill or stop replicas, anywhere; seconds it took until all of them worked again."""
    omni, dice = load.server.omni, random.Random(kills)
    ways = [signal.SIGKILL] * kills + [signal.SIGSTOP] * stops
    dice.shuffle(ways)
    mending = []
    for number, how in enumerate(ways):
        deaths, turns = sum(restarts(omni).values()), load.turns
        answered = load.chats["answered"]
        began = time.monotonic()
        await end_one(omni, dice, how)
        # Mostly one after the other; now and then a second one while the first is away.
        if number % 4 or how is signal.SIGSTOP:
            await eventually(lambda seen=deaths: sum(restarts(omni).values()) > seen)
            await eventually(lambda: is_whole(omni))
            mending.append(time.monotonic() - began)
            await eventually(lambda seen=turns: load.turns > seen)
            await eventually(lambda seen=answered: load.chats["answered"] > seen)
    await eventually(lambda: is_whole(omni))
    return mending


async def check_deaths_leave_nothing(server: RunningServer, kills: int, stops: int) -> None:
    load, omni = Load(server), server.omni
    async with load.running():
        await eventually(lambda: load.turns > SESSIONS and load.chats["answered"] > ASKERS)
        mending = sorted(await end_many(load, kills, stops))
    assert set(load.ended) == {"runtime_failed"}
    assert set(load.chats) <= {"answered", *CHAT_FAILURES}
    assert sum(restarts(omni).values()) >= (kills + stops) * 3 // 4
    await eventually(lambda: holds_nothing(omni))
    print(
        f"\n{kills} killed, {stops} stopped: {load.turns} turns, {dict(load.chats)} chats,"
        f" sessions ended {dict(load.ended)}; whole again after"
        f" {mending[len(mending) // 2]:.2f} s (median), {mending[-1]:.2f} s (longest)"
    )


async def test_deaths_end_what_was_bound_to_them_and_leave_nothing(server: RunningServer) -> None:
    await check_deaths_leave_nothing(server, kills=10, stops=1)


@pytest.mark.slow
@pytest.mark.timeout(1500)
async def test_two_hundred_deaths_end_what_was_bound_to_them_and_leave_nothing(
    server: RunningServer,
) -> None:
    await check_deaths_leave_nothing(server, kills=200, stops=10)
