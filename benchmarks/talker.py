"""One in-process session that answers every unit of input by one unit of speech."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import (
    AppendAudio,
    AudioDelta,
    CancelResponse,
    DuplexEvent,
    ErrorEvent,
    ResponseDone,
    SessionClosed,
)
from duplex_server.entrypoints import DuplexOmni, DuplexSessionHandle

from .instant import instant
from .workload import Units

__all__ = ["Talker", "engine", "in_real_time", "open_talker"]

HOURS_MS = 10 * 3_600_000
IN_A_ROW = 8
"""Units that a sender sends without giving the readers of answers a turn."""
# Units sent faster than anybody speaks are late by design: none of them may be given up.
LIMITS = DuplexSessionRuntimeConfig(
    max_sessions=8_192, idle_ttl_s=None, max_unit_lag_ms=3_600_000.0
)


@asynccontextmanager
async def engine(workload: Units, *, responses: int = 1) -> AsyncIterator[DuplexOmni]:
    """A started engine whose model begins ``responses`` endless answers, one after the other."""
    say = {"ms": HOURS_MS, "text": "x", "words": False, "delay_ms": 0}
    script = {
        "unit_ms": workload.unit_ms,
        "in_rate": workload.input_rate_hz,
        "out_rate": workload.output_rate_hz,
        "turns": "native",
        "yield_after_ms": None,
        "at": [{"ms": 0, "say": say}] * responses,
    }
    omni = DuplexOmni(instant, {"script": json.dumps(script)}, runtime_config=LIMITS)
    await omni.start()
    try:
        yield omni
    finally:
        await omni.stop()


async def open_talker(omni: DuplexOmni, workload: Units) -> Talker:
    """Open a session of it."""
    handle = await omni.open_session({"auto_response": True})
    return Talker(handle, workload)


@cache
def _unit(byte_count: int) -> AppendAudio:
    """One for all: what a client holds is no memory of a session."""
    return AppendAudio(audio=bytes(byte_count))


class Talker:
    """A session and the reader of its events; belongs to one loop."""

    def __init__(self, handle: DuplexSessionHandle, workload: Units) -> None:
        self._handle = handle
        self._events = handle.events()
        self._unit = _unit(workload.input_bytes)

    def append(self) -> float:
        """Send a unit; the microseconds the call took."""
        start = time.perf_counter()
        self._handle.submit(self._unit)
        return (time.perf_counter() - start) * 1e6

    async def delta(self) -> AudioDelta:
        """The next audio."""
        while not isinstance(event := await self._next(), AudioDelta):
            pass
        return event

    async def pair(self) -> float:
        """Send a unit and get its answer; the microseconds from one to the other."""
        start = time.perf_counter()
        self.append()
        await self.delta()
        return (time.perf_counter() - start) * 1e6

    async def cancel(self) -> float:
        """Cancel the response in progress; the milliseconds to its end."""
        start = time.perf_counter()
        self._handle.submit(CancelResponse())
        while not isinstance(await self._next(), ResponseDone):
            pass
        return (time.perf_counter() - start) * 1e3

    async def _next(self) -> DuplexEvent:
        event = await anext(self._events)
        if isinstance(event, ErrorEvent | SessionClosed):
            raise RuntimeError(f"the session failed: {event.to_realtime()}")
        return event

    async def close(self) -> None:
        """End the session."""
        await self._handle.close()


async def in_real_time(talkers: list[Talker], workload: Units, seconds: float) -> list[float]:
    """Every session sends a unit each period; the ms from when each was due to its answer.

    From when it was due, not from when it was sent: whoever sends shares the core with what it
    measures, so that a sender which is late is late on account of that.
    """
    loop = asyncio.get_running_loop()
    period = workload.unit_ms / 1000
    waits: list[float] = []
    due_at: list[list[float]] = [[] for _ in talkers]

    async def read(index: int) -> None:
        while True:
            await talkers[index].delta()
            waits.append((loop.time() - due_at[index].pop(0)) * 1000)

    readers = [asyncio.create_task(read(index)) for index in range(len(talkers))]
    start = loop.time()
    in_a_row = 0
    for tick in range(round(seconds / period)):
        # Spread over the period, as people are, in slices that do not starve the readers.
        for index, talker in enumerate(talkers):
            due = start + (tick + index / len(talkers)) * period
            in_a_row += 1
            if due - loop.time() > 0.001:
                await asyncio.sleep(due - loop.time())
                in_a_row = 0
            elif in_a_row == IN_A_ROW:
                await asyncio.sleep(0)
                in_a_row = 0
            due_at[index].append(due)
            talker.append()
    await asyncio.sleep(period)
    for reader in readers:
        reader.cancel()
    unanswered = [(loop.time() - at) * 1000 for times in due_at for at in times]
    return waits + unanswered
