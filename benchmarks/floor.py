"""The floor under the session layer: an asyncio queue that echoes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from .figure import quantile
from .workload import Units

__all__ = ["Floor", "measure_floor"]


@dataclass(frozen=True, slots=True)
class Floor:
    """What the same traffic costs when nothing is done with it."""

    put_us: float
    round_trip_us: float
    cpu_us: float
    deltas_per_second: float


async def measure_floor(workload: Units) -> Floor:
    """Echo units through two queues and a task."""
    unit, answer = bytes(workload.input_bytes), bytes(workload.output_bytes)
    there: asyncio.Queue[bytes] = asyncio.Queue()
    back: asyncio.Queue[bytes] = asyncio.Queue()

    async def echo() -> None:
        while True:
            await there.get()
            back.put_nowait(answer)

    task = asyncio.create_task(echo())
    put, trips = [], []
    for _ in range(workload.lockstep):
        start = time.perf_counter()
        there.put_nowait(unit)
        handed = time.perf_counter()
        await back.get()
        put.append((handed - start) * 1e6)
        trips.append((time.perf_counter() - start) * 1e6)
    cpu, start = time.process_time(), time.perf_counter()
    for _ in range(workload.pipelined):
        there.put_nowait(unit)
    for _ in range(workload.pipelined):
        await back.get()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - start
    task.cancel()
    return Floor(
        put_us=quantile(put, 0.5),
        round_trip_us=quantile(trips, 0.5),
        cpu_us=cpu / workload.pipelined * 1e6,
        deltas_per_second=workload.pipelined / wall,
    )
