"""The session layer alone: engine thread and queues, a model that costs next to nothing."""

from __future__ import annotations

import asyncio
import gc
import math
import time
import tracemalloc
from dataclasses import dataclass

from duplex_server.entrypoints import DuplexOmni

from .figure import Figure, quantile
from .floor import Floor, measure_floor
from .talker import Talker, engine, in_real_time, open_talker
from .workload import Units

__all__ = ["measure_session_layer"]

IN_FLIGHT = 256
EARLY, LATE = 250, 4_000
HELD_WITHIN_MS = 80.0


async def measure_session_layer(workload: Units, seed: int) -> list[Figure]:
    """All figures of the session layer; ``seed`` is unused, nothing here is drawn by chance."""
    floor = await measure_floor(workload)
    figures = await _one_session(workload, floor)
    figures += await _cancels(workload)
    figures += await _idle(workload)
    figures += await _sessions_in_real_time(workload)
    return figures


async def _one_session(workload: Units, floor: Floor) -> list[Figure]:
    async with engine(workload) as omni:
        talker = await open_talker(omni, workload)
        for _ in range(workload.warm_up):
            await talker.pair()
        calls, pairs = [], []
        for _ in range(workload.lockstep):
            start = time.perf_counter()
            calls.append(talker.append())
            await talker.delta()
            pairs.append((time.perf_counter() - start) * 1e6)
        run = await _pipelined(talker, workload.pipelined)
        late = min(LATE, workload.pipelined // 2)
        flat = await _flatness(omni, workload, late)
    return [
        Figure("client append call, p50", quantile(calls, 0.5), "us", 3, floor=floor.put_us),
        Figure("append to delta, p50", quantile(pairs, 0.5), "us", 100, floor=floor.round_trip_us),
        Figure("CPU per unit, pipelined", run.cpu_us, "us", 20, floor=floor.cpu_us),
        Figure("of it the caller's thread", run.caller_us, "us"),
        Figure(
            "audio deltas per second",
            run.per_second,
            "deltas/s",
            100_000,
            at_least=True,
            floor=floor.deltas_per_second,
        ),
        Figure(f"cost of delta {late:,} against an early one", flat, "times", 1.2),
    ]


@dataclass(frozen=True, slots=True)
class Pipelined:
    """Microseconds of CPU per unit: of both threads, and of the one that sends and reads."""

    cpu_us: float
    caller_us: float
    per_second: float


async def _pipelined(talker: Talker, units: int) -> Pipelined:
    # So many units on the way keep both threads busy and stay below the input limit.
    cpu, own, start = time.process_time(), time.thread_time(), time.perf_counter()
    sent = received = 0
    while received < units:
        while sent < units and sent - received < IN_FLIGHT:
            talker.append()
            sent += 1
        await talker.delta()
        received += 1
    cpu, own, wall = (
        time.process_time() - cpu,
        time.thread_time() - own,
        time.perf_counter() - start,
    )
    return Pipelined(cpu / units * 1e6, own / units * 1e6, units / wall)


async def _flatness(omni: DuplexOmni, workload: Units, late: int) -> float:
    """How much dearer a unit is late in a response than early, by medians of 100.

    Two sessions take turns, one late in its response and one early in its: a machine that others
    use too is twice as fast in one second as in the next.
    """
    old, young = await open_talker(omni, workload), await open_talker(omni, workload)
    for _ in range(late):
        await old.pair()
    for _ in range(min(EARLY, late // 2)):
        await young.pair()
    costs = [(await old.pair(), await young.pair()) for _ in range(100)]
    await old.close()
    await young.close()
    dear, cheap = zip(*costs, strict=True)
    return quantile(dear, 0.5) / quantile(cheap, 0.5)


async def _cancels(workload: Units) -> list[Figure]:
    responses = workload.cancels + workload.warm_up
    async with engine(workload, responses=responses) as omni:
        alone = await _cancel_times(omni, workload)
        streams = [await open_talker(omni, workload) for _ in range(workload.beside)]
        seconds = workload.cancels * workload.unit_ms / 4000
        streaming = asyncio.create_task(in_real_time(streams, workload, seconds))
        beside = await _cancel_times(omni, workload, pause_s=workload.unit_ms / 4000)
        await streaming
    return [
        Figure("cancel to terminal event, p50", quantile(alone, 0.5), "ms", 0.15),
        Figure("cancel to terminal event, p99", quantile(alone, 0.99), "ms", 0.5),
        Figure(
            f"the same beside {workload.beside} sessions that stream, p99",
            quantile(beside, 0.99),
            "ms",
            1.0,
        ),
    ]


async def _cancel_times(omni: DuplexOmni, workload: Units, pause_s: float = 0.0) -> list[float]:
    talker = await open_talker(omni, workload)
    times = []
    for _ in range(workload.cancels):
        await talker.pair()
        times.append(await talker.cancel())
        await asyncio.sleep(pause_s)
    await talker.close()
    return times


async def _idle(workload: Units) -> list[Figure]:
    async with engine(workload) as omni:
        warm = [await open_talker(omni, workload) for _ in range(10)]
        gc.collect()
        tracemalloc.start()
        talkers = [await open_talker(omni, workload) for _ in range(workload.idle_sessions)]
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        cpu, start = time.process_time(), time.perf_counter()
        await asyncio.sleep(workload.idle_s)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - start
        del warm, talkers
    count = workload.idle_sessions
    return [
        Figure("memory per idle session", held / count / 1024, "KiB", 8),
        Figure(f"idle CPU with {count:,} sessions", cpu / wall * 100, "%", 0.05),
    ]


async def _sessions_in_real_time(workload: Units) -> list[Figure]:
    """The most sessions whose p99 stayed within a period, and what those who talk took of it."""
    held, share = 0, math.nan
    async with engine(workload) as omni:
        talkers: list[Talker] = []
        for count in workload.realtime_steps:
            while len(talkers) < count:
                talkers.append(await open_talker(omni, workload))
                # Its first unit opens the model's state and the answer, which no other does.
                await talkers[-1].pair()
            cpu, own = time.process_time(), time.thread_time()
            waits = await in_real_time(talkers, workload, workload.realtime_s)
            cpu, own = time.process_time() - cpu, time.thread_time() - own
            if quantile(waits, 0.99) > HELD_WITHIN_MS:
                break
            held, share = count, own / cpu * 100
    return [
        Figure("sessions in real time", held, "sessions", 2_000, at_least=True),
        Figure("of their CPU the callers' thread", share, "%"),
    ]
