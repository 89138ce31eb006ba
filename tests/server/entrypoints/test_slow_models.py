"""A running engine whose model is slower than its caller speaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from statistics import median
from typing import Any

from duplex_server.testing import Harness

UNIT = b"\0\0" * 320
UNIT_S = 0.02


async def _speak(handle: Any, units: int) -> AsyncIterator[None]:
    """Speak in real time, as a microphone does, however late this loop may be."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(units):
        handle.append_audio(UNIT)
        await asyncio.sleep(max(0.0, began + (number + 1) * UNIT_S - loop.time()))
        yield


async def _told(seen: Any, until_true: Any) -> dict[str, Any]:
    """What the client first hears of units that are late."""

    def news() -> list[dict[str, Any]]:
        return [event.event for event in seen.events if getattr(event, "name", "") == "units_late"]

    await until_true(lambda: bool(news()))
    return news()[0]


async def test_lag_stays_bounded_and_is_seen_by_client_and_operator(
    reader: Any, until_true: Any
) -> None:
    script = {"turns": "native", "unit_ms": 20, "cost_pct": 200}
    async with (
        Harness().engine("scripted", {"script": script}) as omni,
        await omni.open_session({"auto_response": True}) as handle,
    ):
        seen = reader(handle)
        lags = [omni.health().lag_ms async for _ in _speak(handle, 150)]
        news = await _told(seen, until_true)
        await until_true(lambda: omni.health().units_late > 0 < omni.health().units_dropped)
        dropped = omni.health().units_dropped
    assert news["policy"] == "skip_silence"
    # Units may be given up before the first one is answered late.
    assert news["late"] + news["dropped"] > 0
    assert dropped < 150
    # Without a bound it would be more than a second by then, and a second and a half at the end.
    assert 0 < median(lags[100:]) < 1000


async def test_the_lag_of_a_session_that_ended_is_nobodys(reader: Any, until_true: Any) -> None:
    script = {"turns": "native", "unit_ms": 20, "cost_pct": 300}
    async with Harness().engine("scripted", {"script": script}) as omni:
        async with await omni.open_session({"auto_response": True}) as handle:
            seen = reader(handle)
            async for _ in _speak(handle, 60):
                pass
            await _told(seen, until_true)
        await until_true(lambda: omni.health().lag_ms == 0)
