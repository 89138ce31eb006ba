"""Readers that stop reading: what they cost is bounded, and nobody else pays for it (B02)."""

from __future__ import annotations

import asyncio
import base64
import itertools
import math
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.testing.session_lab import tone
from duplex_server.testing import Harness, RunningServer
from patience import PATIENCE_S, eventually
from processes import waited_for_a_core_s
from websockets.asyncio.client import ClientConnection, connect

MIB = 1024 * 1024
PATH = "/v1/duplex?autostart=0"
MINUTE = {"text": "and so on", "ms": 60_000, "words": False, "delay_ms": 0}
LONG = MINUTE | {"ms": 300_000}
"""More than the system's own socket buffers can hide."""
FLUENT = {"pace": "realtime", "answers": [MINUTE]}
BURST = {"pace": "burst"}
SPELL = 40
"""So many pieces of an answer in real time somebody else is listened to: 3.2 s."""
TRIES = 3
"""A busy machine makes a neighbour late as well, but never all the time."""
LATER_S = 0.05
"""So much later than before a neighbour's audio may come, says the case."""
SHORT = {"text": "yes", "ms": 200, "words": False, "delay_ms": 0}
LIMITS = DuplexSessionRuntimeConfig()
MEMORY_CAP = 6 * MIB + (
    LIMITS.max_pending_output_bytes_per_session
    + LIMITS.max_pending_stage_output_bytes_per_session
    + LIMITS.resume_replay_max_bytes_per_session
)
"""What the settings let wait for a reader, as the docs say, and a little for the interpreter."""


@asynccontextmanager
async def server_with(
    script: dict[str, Any] | None = None, **limits: Any
) -> AsyncIterator[RunningServer]:
    whole = {"turns": "commit", "pace": "burst", "answers": [MINUTE, SHORT]} | (script or {})
    config = DuplexSessionRuntimeConfig(**{"max_sessions": 2} | limits)
    async with Harness().server("scripted", {"script": whole}, limits=config) as server:
        yield server


async def opened(server: RunningServer, **session: Any) -> ClientConnection:
    """A session on a socket whose system buffer holds little."""
    address = server.url.removeprefix("ws://").split(":")
    raw = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, (address[0], int(address[1])))
    client = await connect(server.url + PATH, sock=raw, max_size=None, max_queue=4)
    await client.send(frame("session.update", session=session))
    await until(client, "session.updated")
    return client


def frame(kind: str, **fields: Any) -> str:
    return msgspec.json.encode({"type": kind, **fields}).decode()


async def until(client: ClientConnection, *kinds: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_S):
        while not events or events[-1]["type"] not in kinds:
            events.append(msgspec.json.decode(await client.recv()))
    return events


async def ask(client: ClientConnection) -> None:
    audio = base64.b64encode(tone(200, 16_000)).decode()
    await client.send(frame("input_audio_buffer.append", audio=audio))
    await client.send(frame("input_audio_buffer.commit"))
    await client.send(frame("response.create"))


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def gaps(client: ClientConnection, pieces: int = SPELL) -> list[float]:
    """Times between audio deltas of an answer that comes in real time, the longest last.

    What this process had to wait for a core meanwhile is the machine's doing and not part of them.
    """
    await ask(client)
    heard: list[tuple[float, float]] = []
    while len(heard) <= pieces:
        async with asyncio.timeout(PATIENCE_S):
            event = msgspec.json.decode(await client.recv())
        if event["type"] == "response.output_audio.delta":
            heard.append((time.monotonic(), waited_for_a_core_s()))
    await client.send(frame("response.cancel"))
    await until(client, "response.done")
    return sorted(
        late - early - max(0.0, waited_late - waited_early)
        for (early, waited_early), (late, waited_late) in itertools.pairwise(heard)
    )


async def growth(client: ClientConnection, alone: list[float], beside: list[float]) -> float:
    """By how much the longest gap grew; of so few none may be late.

    If it did, the client is listened to alone once more: it may be the machine that was busy.
    """
    later = beside[-1] - alone[-1]
    if later >= LATER_S:
        later = beside[-1] - max(alone[-1], (await gaps(client))[-1])
    return later


async def later_than_alone(attempt: Callable[[], Awaitable[float]]) -> float:
    """By how much the longest gap grew at best."""
    least = math.inf
    for _ in range(TRIES):
        least = min(least, await attempt())
        if least < LATER_S:
            break
    return least


async def test_b02_a_reader_that_pauses_and_cancels_hears_nothing_after_the_end() -> None:
    assert await later_than_alone(beside_a_reader_that_pauses) < LATER_S


async def test_b02_a_reader_that_never_reads_costs_nobody_else_anything() -> None:
    assert await later_than_alone(beside_a_reader_that_never_reads) < LATER_S


async def beside_a_reader_that_pauses() -> float:
    async with server_with(FLUENT) as server:
        talking = await opened(server)
        alone = await gaps(talking)
        script = BURST | {"answers": [MINUTE, SHORT]}
        client = await opened(server, extra_body={"script": script})
        before = resident_bytes()
        await ask(client)
        await until(client, "response.created")
        client.transport.pause_reading()
        beside = await gaps(talking)
        assert resident_bytes() - before < MEMORY_CAP
        handle = server.omni.sessions[next(reversed(server.omni.sessions))]
        assert handle.link.output.pending_bytes <= 2 * MIB + 256 * 1024
        await client.send(frame("response.cancel"))
        client.transport.resume_reading()
        events = await until(client, "response.done")
        assert events[-1]["response"]["status"] == "cancelled"
        cancelled = events[-1]["response_id"]
        heard_ms = sum(
            len(base64.b64decode(event["delta"])) / 48
            for event in events
            if event["type"] == "response.output_audio.delta"
        )
        assert heard_ms < 60_000
        await ask(client)
        later = await until(client, "response.done")
        assert later[-1]["response"]["status"] == "completed"
        assert cancelled not in [
            event.get("response_id") for event in later if "audio" in event["type"]
        ]
        await client.close()
        later = await growth(talking, alone, beside)
        await talking.close()
        return later


async def beside_a_reader_that_never_reads() -> float:
    async with server_with(FLUENT) as server:
        talking = await opened(server)
        alone = await gaps(talking)
        frozen = await opened(server, extra_body={"script": BURST | {"answers": [MINUTE]}})
        before = resident_bytes()
        frozen.transport.pause_reading()
        await ask(frozen)
        beside = await gaps(talking)
        assert resident_bytes() - before < MEMORY_CAP
        frozen.transport.abort()
        later = await growth(talking, alone, beside)
        await talking.close()
        return later


async def test_a_reader_that_never_reads_is_closed_alone_within_its_bounds() -> None:
    script = {"pace": "realtime", "answers": [MINUTE]}
    async with server_with(script, output_stall_timeout_s=0.5) as server:
        talking = await opened(server)
        frozen = await opened(server, extra_body={"script": {"pace": "burst", "answers": [LONG]}})
        session_id = next(reversed(server.omni.sessions))
        handle = server.omni.sessions[session_id]
        before = resident_bytes()
        frozen.transport.pause_reading()
        await ask(frozen)
        assert await gaps(talking, 25)
        assert resident_bytes() - before < MEMORY_CAP
        async with asyncio.timeout(PATIENCE_S):
            assert await handle.wait_closed() == "output_backpressure"
        assert [*server.omni.sessions] != [session_id]
        await eventually(lambda: server.omni.health().slots_used == 1)
        # What it finally reads: whole events, then why it ended, and nothing after.
        frozen.transport.resume_reading()
        events = await until(frozen, "session.closed")
        assert events[-1]["reason"] == "output_backpressure"
        failed = [event for event in events if event["type"] == "response.done"][-1]
        assert failed["response"]["status_details"]["reason"] == "output_backpressure"
        numbers = [event["server_event_seq"] for event in events if "server_event_seq" in event]
        assert numbers == [*range(numbers[0], numbers[0] + len(numbers))]
        await frozen.wait_closed()
        assert (frozen.close_code, frozen.close_reason) == (1000, "output_backpressure")
        await talking.close()


async def test_a_stopping_server_waits_for_no_dead_socket() -> None:
    async with server_with({"answers": [LONG]}, output_stall_timeout_s=0.3) as server:
        client = await opened(server)
        client.transport.pause_reading()
        await ask(client)
        (handle,) = server.omni.sessions.values()
        async with asyncio.timeout(PATIENCE_S):
            await handle.wait_closed()
        stopping = time.monotonic()
    assert time.monotonic() - stopping < PATIENCE_S
    client.transport.abort()
