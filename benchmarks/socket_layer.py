"""Sessions in real time through the real socket: base64, JSON, WebSocket, both ends here.

The callers are raw sockets with ready-made frames: what is measured is the server, and as little
as possible of the load.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from duplex_sdk.cli.server_process import ServerProcess
from websockets.asyncio.client import ClientConnection, connect

from .echo_server import EchoProcess
from .figure import Figure, quantile
from .machine import process_cpu_seconds
from .workload import Sockets, Units

__all__ = ["measure_socket_layer"]

HOURS_MS = 10 * 3_600_000
HELD_WITHIN_MS = 20.0
SESSIONS_TARGET = 800
CANCELS = 5
WARM_UP_S = 0.5
_DELTA = '"response.output_audio.delta"'
_DONE = '"response.done"'
_UPDATE = '{"type":"session.update","session":{"auto_response":true}}'
_CANCEL = '{"type":"response.cancel"}'


@dataclass(frozen=True, slots=True)
class _Held:
    """The last step that held: how many, how late, and what the server's process spent."""

    sessions: int = 0
    p99_ms: float = math.nan
    cpu_us: float = math.nan


async def measure_socket_layer(units: Units, workload: Sockets) -> list[Figure]:
    """Step up until the answers come late, then look at what comes after a cancel.

    Raises:
        ServerStartError: the server does not start.
    """
    async with EchoProcess(units.output_bytes) as echo:
        floor, callers = await _step_up(echo.url, echo.pid, units, workload)
        await asyncio.gather(*(caller.close() for caller in callers))
    async with _server(units, max(workload.steps)) as server:
        held, callers = await _step_up(server.url, server.pid, units, workload)
        late = await _audio_after_the_end(callers[: workload.cancelling], units)
        await asyncio.gather(*(caller.close() for caller in callers))
    return [
        Figure(
            "sessions in real time, p99 within 20 ms",
            held.sessions,
            "sessions",
            SESSIONS_TARGET,
            at_least=True,
            floor=floor.sessions,
        ),
        Figure(
            "added latency with so many, p99",
            held.p99_ms,
            "ms",
            HELD_WITHIN_MS,
            floor=floor.p99_ms,
        ),
        Figure("CPU of the server per unit", held.cpu_us, "us", floor=floor.cpu_us),
        Figure("audio after a cancelled end", late, "deltas", 0),
    ]


async def _step_up(
    url: str, pid: int, units: Units, workload: Sockets
) -> tuple[_Held, list[_Caller]]:
    frame = _append_frame(units)
    callers: list[_Caller] = []
    held = _Held()
    for count in workload.steps:
        callers += await _opened(url, count - len(callers))
        await _in_real_time(callers, frame, units, WARM_UP_S)
        cpu = process_cpu_seconds(pid)
        waits = await _in_real_time(callers, frame, units, workload.seconds)
        cpu = process_cpu_seconds(pid) - cpu
        p99 = quantile(waits, 0.99)
        if p99 > HELD_WITHIN_MS:
            break
        held = _Held(count, p99, cpu / len(waits) * 1e6)
    return held, callers


class _Caller:
    """One socket; belongs to one loop."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._sent: deque[float] = deque()
        self._done = asyncio.Event()
        self._reader = asyncio.create_task(self._read())
        self.waits: list[float] = []
        self.late = 0

    async def send_unit(self, frame: str) -> None:
        self._sent.append(self._loop.time())
        await self._socket.send(frame)

    async def cancel(self) -> None:
        """Cancel what is said, and return with the end of it."""
        self._done.clear()
        await self._socket.send(_CANCEL)
        async with asyncio.timeout(10):
            await self._done.wait()

    def take_waits(self) -> list[float]:
        """The answer times since the last call in ms; what is unanswered counts as it stands."""
        waits, self.waits = self.waits, []
        now = self._loop.time()
        waits += [(now - at) * 1000 for at in self._sent]
        self._sent.clear()
        return waits

    async def close(self) -> None:
        self._reader.cancel()
        await self._socket.close()

    async def _read(self) -> None:
        cancelled = ""
        async for frame in self._socket:
            assert isinstance(frame, str)
            if _DELTA in frame[:200]:
                if cancelled:
                    self.late += msgspec.json.decode(frame)["response_id"] == cancelled
                if self._sent:
                    self.waits.append((self._loop.time() - self._sent.popleft()) * 1000)
            elif _DONE in frame[:200]:
                cancelled = msgspec.json.decode(frame)["response_id"]
                self._done.set()


@asynccontextmanager
async def _server(units: Units, sessions: int) -> AsyncIterator[ServerProcess]:
    say = {"ms": HOURS_MS, "text": "x", "words": False, "delay_ms": 0}
    script = {
        "unit_ms": units.unit_ms,
        "in_rate": units.input_rate_hz,
        "out_rate": units.output_rate_hz,
        "turns": "native",
        "yield_after_ms": None,
        "at": [{"ms": 0, "say": say}] * (CANCELS + 1),
    }
    option = f"script={json.dumps(script)}"
    arguments = ("--plugin", "scripted", "--plugin-option", option)
    async with ServerProcess(*arguments, "--max-sessions", str(sessions)) as server:
        yield server


def _append_frame(units: Units) -> str:
    audio = base64.b64encode(bytes(units.input_bytes)).decode()
    return f'{{"type":"input_audio_buffer.append","audio":"{audio}"}}'


async def _opened(url: str, count: int) -> list[_Caller]:
    callers = []
    for _ in range(count):
        socket = await connect(
            f"{url}/v1/duplex?autostart=0",
            compression=None,
            ping_interval=None,
            max_size=None,
            close_timeout=1,
        )
        await socket.send(_UPDATE)
        first = await socket.recv()
        if msgspec.json.decode(first)["type"] != "session.created":
            raise RuntimeError(f"no session: {first!r}")
        callers.append(_Caller(socket))
    return callers


async def _in_real_time(
    callers: list[_Caller], frame: str, units: Units, seconds: float
) -> list[float]:
    """Every caller sends a unit each period; the ms from each unit to its answer."""
    loop = asyncio.get_running_loop()
    period = units.unit_ms / 1000
    start = loop.time()
    for tick in range(round(seconds / period)):
        for index, caller in enumerate(callers):
            due = start + (tick + index / len(callers)) * period
            if due - loop.time() > 0.001:
                await asyncio.sleep(due - loop.time())
            elif index % 16 == 0:
                await asyncio.sleep(0)
            await caller.send_unit(frame)
    await asyncio.sleep(period)
    return [wait for caller in callers for wait in caller.take_waits()]


async def _audio_after_the_end(callers: list[_Caller], units: Units) -> int:
    """Let everybody be spoken to, cancel in the middle, and count what comes too late."""
    frame = _append_frame(units)
    for _ in range(CANCELS):
        for _ in range(3):
            for caller in callers:
                await caller.send_unit(frame)
            await asyncio.sleep(units.unit_ms / 1000)
        await asyncio.gather(*(caller.cancel() for caller in callers))
    await asyncio.sleep(0.2)
    return sum(caller.late for caller in callers)
