from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from duplex_sdk.clients import DuplexClient
from duplex_sdk.clients.pacing import paced


async def pieces() -> AsyncIterator[bytes]:
    for size in (1, 3000, 199):
        yield bytes(size)


@pytest.mark.parametrize("source", [bytes(3200), [bytes(100), bytes(3100)], pieces()])
def test_audio_leaves_when_a_microphone_would_have_it(
    in_virtual_time: Callable[[Any], Any], source: Any
) -> None:
    async def main() -> list[tuple[float, int]]:
        loop = asyncio.get_running_loop()
        chunks = paced(source, bytes_per_second=32_000, chunk_ms=40)
        return [(round(loop.time(), 6), len(chunk)) async for chunk in chunks]

    assert in_virtual_time(main) == [(0.04, 1280), (0.08, 1280), (0.1, 640)]


def test_late_wake_ups_do_not_add_up(in_virtual_time: Callable[[Any], Any]) -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        async for _ in paced(bytes(32_000), bytes_per_second=32_000, chunk_ms=100):
            await asyncio.sleep(0.03)
        return loop.time()

    assert in_virtual_time(main) == pytest.approx(1.03)


def test_stream_pcm_sends_every_byte(in_virtual_time: Callable[[Any], Any], socket: Any) -> None:
    async def main() -> None:
        client = DuplexClient("ws://there", socket_factory=socket.open, heartbeat_s=None)
        socket.says_created()
        await client.open()
        await client.stream_pcm(bytes(16_000), sample_rate_hz=16_000, declare_rate=True)
        socket.says("session.closed", session_id="s", epoch=0, reason="r", event={})
        await client.close()

    in_virtual_time(main)
    appends = [f for f in socket.sent if f["type"] == "input_audio_buffer.append"]
    assert len(appends) == 13
    assert {frame["sample_rate_hz"] for frame in appends} == {16_000}
