"""A running engine whose model is slower than its caller speaks."""

from __future__ import annotations

import asyncio
from typing import Any

from duplex_server.testing import Harness

UNIT = b"\0\0" * 320


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
        for _ in range(100):
            handle.append_audio(UNIT)
            await asyncio.sleep(0.02)
        news = await _told(seen, until_true)
        health = omni.health()
    assert news["policy"] == "skip_silence"
    assert news["late"] > 0
    assert health.units_late > 0
    assert 0 < health.units_dropped < 100
    assert 0 < health.lag_ms < 1000


async def test_the_lag_of_a_session_that_ended_is_nobodys(reader: Any, until_true: Any) -> None:
    script = {"turns": "native", "unit_ms": 20, "cost_pct": 300}
    async with Harness().engine("scripted", {"script": script}) as omni:
        async with await omni.open_session({"auto_response": True}) as handle:
            seen = reader(handle)
            for _ in range(60):
                handle.append_audio(UNIT)
                await asyncio.sleep(0.02)
            await _told(seen, until_true)
        await until_true(lambda: omni.health().lag_ms == 0)
