"""Clients that vanish, freeze or talk garbage cost nobody else anything."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import struct
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.testing.counter_audio import CounterAudio
from duplex_server.testing import Harness, RunningServer
from patience import PATIENCE_S, eventually
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

SLOTS = 3
UNIT = base64.b64encode(bytes(3840)).decode()
APPEND = json.dumps({"type": "input_audio_buffer.append", "audio": UNIT})
SHORT_ANSWER = {"text": "yes", "ms": 200, "delay_ms": 0}
LONG_ANSWER = {"text": "and so on", "ms": 60_000, "words": False, "delay_ms": 0}


@asynccontextmanager
async def server_with(limits: Mapping[str, Any] | None = None, **script: Any):
    deployment = DuplexSessionRuntimeConfig(max_sessions=SLOTS, **(limits or {}))
    options = {"script": script} if script else {}
    async with Harness().server("scripted", options, limits=deployment) as server:
        yield server


async def announced(server: RunningServer, path: str = "/v1/realtime") -> ClientConnection:
    """A connection whose session is open; waits for a slot that is being freed."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                client = await connect(server.url + path, max_size=None)
            except InvalidStatus as refused:
                if refused.response.status_code != 503:
                    raise
                await asyncio.sleep(0.02)
                continue
            assert json.loads(await client.recv())["type"] == "session.created"
            return client


def reset(client: ClientConnection) -> None:
    """Drop the connection as a crashed machine does: RST, no close frame."""
    raw = client.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.transport.abort()


async def reset_in_mid_append(client: ClientConnection) -> None:
    await client.send(APPEND)
    # The head of a frame that announces more than will ever come.
    client.transport.write(b"\x81\xfe\x0f\xff" + bytes(4) + b'{"type":"input_audio')
    await asyncio.sleep(0)
    reset(client)


async def vanish_without_a_close_frame(client: ClientConnection) -> None:
    await client.send(APPEND)
    client.transport.close()


async def freeze_then_vanish(client: ClientConnection) -> None:
    client.transport.pause_reading()
    for _ in range(20):
        await client.send(APPEND)
    await client.send('{"type":"input_audio_buffer.commit"}')
    await asyncio.sleep(0.05)
    reset(client)


async def send_binary_garbage(client: ClientConnection) -> None:
    await client.send(os.urandom(5000))
    reset(client)


async def send_protocol_garbage(client: ClientConnection) -> None:
    client.transport.write(os.urandom(400))
    await client.wait_closed()


async def send_too_much(client: ClientConnection) -> None:
    try:
        await client.send("x" * (17 * 2**20))
        await client.wait_closed()
    except ConnectionClosed:
        pass


async def send_invalid_utf8(client: ClientConnection) -> None:
    client.transport.write(b"\x81\x82" + bytes(4) + b"\xff\xfe")
    await client.wait_closed()
    assert client.close_code == 1007


async def send_json_that_is_no_command(client: ClientConnection) -> None:
    for frame in ("null", "[]", "0", '"x"', "[" * 40_000, '{"a":' * 40_000, "{", "\u2028"):
        await client.send(frame)
        assert json.loads(await client.recv())["type"] == "error"
    client.transport.close()


async def close_with_a_made_up_code(client: ClientConnection) -> None:
    await client.close(4999, "bye")


RUDE: list[Callable[[ClientConnection], Awaitable[None]]] = [
    reset_in_mid_append,
    vanish_without_a_close_frame,
    freeze_then_vanish,
    send_binary_garbage,
    send_protocol_garbage,
    send_too_much,
    send_invalid_utf8,
    send_json_that_is_no_command,
    close_with_a_made_up_code,
]


async def slots_fall_to(server: RunningServer, count: int) -> None:
    await eventually(lambda: server.omni.health().slots_used == count)


async def one_turn(client: ClientConnection) -> str:
    """Speak, commit, and hear the whole answer; returns how it ended."""
    await client.send(APPEND)
    await client.send('{"type":"input_audio_buffer.commit"}')
    await client.send('{"type":"response.create"}')
    async with asyncio.timeout(PATIENCE_S):
        while True:
            event = json.loads(await client.recv())
            assert event["type"] not in ("error", "session.closed"), event
            if event["type"] == "response.done":
                return str(event["response"]["status"])


async def manual_turns(client: ClientConnection) -> None:
    update = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
    await client.send(json.dumps({"type": "session.update", "session": update}))


async def listening(client: ClientConnection) -> list[int]:
    """Ask for a long answer and hear it until it is cancelled; the places of its audio."""
    await client.send(APPEND)
    await client.send('{"type":"input_audio_buffer.commit"}')
    await client.send('{"type":"response.create"}')
    heard = b""
    while True:
        event = json.loads(await client.recv())
        assert event["type"] not in ("error", "session.closed"), event
        if event["type"] == "response.output_audio.delta":
            heard += base64.b64decode(event["delta"])
        elif event["type"] == "response.done":
            assert event["response"]["status"] == "cancelled"
            return [block.index for block in CounterAudio(24_000).read(heard)]


@pytest.mark.parametrize("rounds", [30, pytest.param(200, marks=pytest.mark.slow)])
async def test_b08_rude_sessions_leave_no_slot_taken_and_disturb_nobody(
    caplog: pytest.LogCaptureFixture, rounds: int
) -> None:
    endless = LONG_ANSWER | {"ms": 3_600_000}
    script = {"turns": "commit", "answers": [endless, SHORT_ANSWER]}
    async with server_with({"disconnect_grace_s": 0.1}, **script) as server:
        healthy = await announced(server)
        await manual_turns(healthy)
        ear = asyncio.create_task(listening(healthy))
        for round_number in range(rounds):
            path = "/v1/realtime" if round_number % 2 else "/v1/duplex?model=scripted"
            victim = await announced(server, path)
            await RUDE[round_number % len(RUDE)](victim)
            await victim.close()
        await slots_fall_to(server, 1)
        await healthy.send('{"type":"response.cancel"}')
        places = await ear
        assert len(places) > 20
        assert places == [*range(len(places))], "something of the healthy one's answer is missing"
        assert await one_turn(healthy) == "completed"
        await healthy.close()
        await slots_fall_to(server, 0)
    ours = [record for record in caplog.records if record.name.startswith(("duplex", "asyncio"))]
    assert not [record.getMessage() for record in ours if record.exc_info]


async def test_client_that_never_reads_loses_its_session_and_costs_nobody_else(caplog) -> None:
    limits = {"max_pending_output_bytes_per_session": 200_000, "output_stall_timeout_s": 0.3}
    script = {"turns": "commit", "pace": "burst", "answers": [LONG_ANSWER]}
    async with server_with(limits, **script) as server:
        frozen = await announced(server)
        await manual_turns(frozen)
        await frozen.send(APPEND)
        frozen.transport.pause_reading()
        raw = frozen.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await frozen.send('{"type":"input_audio_buffer.commit"}')
        await frozen.send('{"type":"response.create"}')
        await asyncio.sleep(0.2)
        healthy = await announced(server)
        await manual_turns(healthy)
        assert await one_turn(healthy) == "completed"
        await slots_fall_to(server, 1)
        await healthy.close()
        await slots_fall_to(server, 0)
        reset(frozen)


async def test_metrics_follow_the_engine_and_the_conversation() -> None:
    async with server_with() as server:
        client = await announced(server)
        await manual_turns(client)
        assert await one_turn(client) == "completed"
        page = await asyncio.to_thread(_fetch, server.url.replace("ws", "http", 1) + "/metrics")
        await client.close()
    figures = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert figures['duplex_sessions{state="open"}'] == "1.0"
    assert figures["duplex_session_slots"] == f"{SLOTS}.0"
    assert float(figures['duplex_stage_step_seconds_count{stage="scripted"}']) > 0
    assert float(figures['duplex_stage_batch_size_count{stage="scripted"}']) > 0
    assert figures["duplex_append_to_first_delta_seconds_count"] == "1.0"
    for name in ("input_queue_bytes", "output_queue_bytes", "mailbox_depth"):
        assert figures[f"duplex_{name}"] == "0.0"


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return answer.read().decode()
