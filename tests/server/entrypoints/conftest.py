from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import DuplexEvent
from duplex_server.entrypoints import DuplexOmni, DuplexSessionHandle
from duplex_server.testing import Harness
from patience import PATIENCE_S, eventually

Engine = Callable[..., AbstractAsyncContextManager[DuplexOmni]]
ANSWER = {"text": "one two three", "ms": 200, "delay_ms": 0}
SPEECH = os.urandom(16_000)
"""Half a second that no energy gate takes for silence."""


class Reader:
    """Reads a session in the background and keeps what it saw."""

    def __init__(self, handle: DuplexSessionHandle) -> None:
        self.events: list[DuplexEvent] = []
        self._news = asyncio.Condition()
        self.task = asyncio.create_task(self._read(handle))

    async def _read(self, handle: DuplexSessionHandle) -> None:
        async for event in handle.events():
            async with self._news:
                self.events.append(event)
                self._news.notify_all()

    async def until(self, kind: str, count: int = 1) -> DuplexEvent:
        """The ``count``-th event of this wire type."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: self.kinds.count(kind) >= count)
        return [event for event in self.events if event.type == kind][count - 1]

    @property
    def kinds(self) -> list[str]:
        return [event.type for event in self.events]


@pytest.fixture
def engine() -> Engine:
    """Starts an engine with the scripted plugin: committed turns, answered at once."""

    def start(
        script: dict[str, Any] | None = None, **limits: Any
    ) -> AbstractAsyncContextManager[DuplexOmni]:
        whole = {"turns": "commit", "pace": "burst", "answers": [ANSWER], **(script or {})}
        return Harness().engine(
            "scripted", {"script": whole}, limits=DuplexSessionRuntimeConfig(**limits)
        )

    return start


@pytest.fixture
async def omni(engine: Engine) -> AsyncIterator[DuplexOmni]:
    async with engine() as running:
        yield running


@pytest.fixture
def reader() -> type[Reader]:
    return Reader


@pytest.fixture
def until_true() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    return eventually


@pytest.fixture
def speech() -> bytes:
    return SPEECH
