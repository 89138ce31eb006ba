"""How often the two threads wake each other: once per direction, however much there is to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import AudioDelta, DuplexEvent, ResponseDone
from duplex_sdk.testing.session_lab import tone
from duplex_server.entrypoints import DuplexSessionHandle
from duplex_server.testing import Harness
from patience import PATIENCE_S

UNIT = tone(80, 16_000)
SPEAKS = {"say": {"ms": 3_600_000, "text": "x", "words": False, "delay_ms": 0}, "ms": 0}
SCRIPT = {"turns": "native", "unit_ms": 80, "yield_after_ms": None, "at": [SPEAKS] * 3}


class Counting(asyncio.SelectorEventLoop):
    """Counts how often it was woken from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.woken = 0

    def call_soon_threadsafe(self, *args: Any, **options: Any) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(*args, **options)


class Talk:
    """A session of a model that answers each unit by one, and how often both sides were woken."""

    def __init__(self, handle: DuplexSessionHandle, engine_loop: Counting) -> None:
        self.handle = handle
        self._events = handle.events()
        self._engine_loop = engine_loop
        self._own = 0
        loop = asyncio.get_running_loop()
        wake = loop.call_soon_threadsafe

        def counted(*args: Any, **options: Any) -> asyncio.Handle:
            self._own += 1
            return wake(*args, **options)

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign]

    async def until(self, kind: type[DuplexEvent]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not isinstance(await anext(self._events), kind):
                pass

    async def woken_by(self, ask: Callable[[], None], until: type[DuplexEvent]) -> tuple[int, int]:
        """How often the engine was, and we were, from asking until an event of this kind."""
        before = (self._engine_loop.woken, self._own)
        ask()
        await self.until(until)
        return self._engine_loop.woken - before[0], self._own - before[1]


@pytest.fixture
async def talk() -> AsyncIterator[Talk]:
    loops: list[Counting] = []

    def new_loop() -> asyncio.AbstractEventLoop:
        loops.append(Counting())
        return loops[-1]

    async with Harness().engine("scripted", {"script": SCRIPT}, new_loop=new_loop) as omni:
        talk = Talk(await omni.open_session({"auto_response": True}), loops[0])
        talk.handle.append_audio(UNIT)
        await talk.until(AudioDelta)
        yield talk


async def test_a_cancel_takes_one_wake_per_direction(talk: Talk) -> None:
    engine, own = await talk.woken_by(talk.handle.cancel_response, ResponseDone)
    assert engine == 1
    # None, where the reader did not wait yet when the end of the answer was there.
    assert own <= 1


async def test_a_unit_takes_one_wake_per_direction(talk: Talk) -> None:
    engine, own = await talk.woken_by(lambda: talk.handle.append_audio(UNIT), AudioDelta)
    assert engine == 1
    assert own <= 1


async def test_commands_of_one_turn_share_their_wake(talk: Talk) -> None:
    def ask() -> None:
        for _ in range(3):
            talk.handle.append_audio(UNIT)
        talk.handle.cancel_response()

    engine, _ = await talk.woken_by(ask, ResponseDone)
    assert engine == 1
