"""When a worker counts as dead: after so many beats of this loop without a word."""

from __future__ import annotations

import asyncio
import time

import pytest
from duplex_server.stages.heartbeat import Heartbeat
from patience import PATIENCE_S

BEAT_S = 0.02


class Watched:
    """A heartbeat, what it sent and what it said."""

    def __init__(self) -> None:
        self.pings: list[int] = []
        self.silent: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.beat_heard = asyncio.Event()
        self.heartbeat = Heartbeat(
            ping=self._ping, on_silent=self.silent.set_result, interval_s=BEAT_S
        )

    def _ping(self, n: int) -> None:
        self.pings.append(n)
        self.beat_heard.set()

    async def next_ping(self) -> None:
        self.beat_heard.clear()
        await asyncio.wait_for(self.beat_heard.wait(), PATIENCE_S)


async def test_silence_is_told_once_and_ends_the_beat() -> None:
    watched = Watched()
    watched.heartbeat.start(3)
    assert await asyncio.wait_for(watched.silent, PATIENCE_S) == pytest.approx(3 * BEAT_S)
    assert watched.pings == [1, 2, 3]
    watched.heartbeat.stop()


async def test_a_word_now_and_then_is_enough() -> None:
    watched = Watched()
    watched.heartbeat.start(2)
    for _ in range(8):
        await watched.next_ping()
        watched.heartbeat.heard()
    assert not watched.silent.done()
    watched.heartbeat.stop()


async def test_patience_can_change_while_it_beats() -> None:
    watched = Watched()
    watched.heartbeat.start(1_000)
    for _ in range(5):
        await watched.next_ping()
    before = len(watched.pings)
    watched.heartbeat.start(2)
    await asyncio.wait_for(watched.silent, PATIENCE_S)
    assert len(watched.pings) == before + 2


async def test_a_pause_of_our_own_is_no_silence_of_the_worker() -> None:
    watched = Watched()
    watched.heartbeat.start(3)
    time.sleep(20 * BEAT_S)  # noqa: ASYNC251 - the loop is what stands still
    await watched.next_ping()
    watched.heartbeat.heard()
    assert not watched.silent.done()
    watched.heartbeat.stop()


async def test_a_stopped_heartbeat_says_nothing() -> None:
    watched = Watched()
    watched.heartbeat.start(1)
    watched.heartbeat.stop()
    await asyncio.sleep(5 * BEAT_S)
    assert watched.pings == [1]
    assert not watched.silent.done()
