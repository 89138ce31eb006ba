"""What a process of its own costs a stage, next to a thread of its own."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import (
    Backend,
    PipelineConfig,
    StageConfig,
    StageError,
    StageOutput,
    StagePrompt,
    StageSession,
    UnitRequest,
)
from duplex_server.stages import StageListener, StagePool, build_pools, start_pools, stop_pools

from .figure import Figure, quantile
from .process_cpu import cpu_of
from .workload import Units

__all__ = ["measure_worker_overhead"]

BATCH = 32
GROUPS = 2
"""Batches on the way at once: one is computed while the other is read and sent again."""


def measure_worker_overhead(workload: Units) -> list[Figure]:
    """Latency and throughput of one replica, units of audio in and out, on the engine's loop."""
    factory = None if importlib.util.find_spec("uvloop") is None else _uvloop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(_measure(workload))


def _uvloop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


async def _measure(workload: Units) -> list[Figure]:
    thread_us, process_us = [await _lockstep(workload, kind) for kind in ("inline", "process")]
    (thread_rate, thread_cpu), (process_rate, process_cpu) = [
        await _batches(workload, kind) for kind in ("inline", "process")
    ]
    return [
        Figure(
            "unit to output through a worker, p50",
            process_us,
            "us",
            thread_us + 200,
            floor=thread_us,
        ),
        Figure("more than through a thread, p50", (process_us - thread_us) / 1000, "ms", 0.2),
        Figure(
            f"units of {workload.unit_ms} ms in batches of {BATCH}",
            process_rate,
            "units/s",
            20_000,
            at_least=True,
            floor=thread_rate,
        ),
        Figure("the same, share of a thread's", process_rate / thread_rate, "times"),
        Figure(
            "CPU of such a unit, engine and worker together",
            process_cpu,
            "us",
            1e6 / 20_000,
            floor=thread_cpu,
        ),
    ]


class _Echoes(StageListener):
    """Counts what comes back, per group of sessions."""

    def __init__(self) -> None:
        self.waiting = [0] * GROUPS
        self.done = [asyncio.Event() for _ in range(GROUPS)]

    def expect(self, group: int, count: int) -> None:
        self.waiting[group] = count
        self.done[group].clear()

    def on_outputs(self, stage_id: int, replica_id: int, outputs: Sequence[StageOutput]) -> None:
        for output in outputs:
            group = output.turn_id
            self.waiting[group] -= 1
            if not self.waiting[group]:
                self.done[group].set()

    def on_failed(self, stage_id: int, session_id: str, error: StageError) -> None:
        raise AssertionError(error.message)

    def on_taken(self, stage_id: int, session_id: str, epoch: int, seq: int) -> None:
        """Nothing waits for credit here."""

    def on_idle(self, stage_id: int, session_id: str) -> None:
        """Nothing waits for idleness here."""


@asynccontextmanager
async def _echo_pool(backend: Backend) -> AsyncIterator[tuple[StagePool, _Echoes]]:
    stage = StageConfig(
        "echo",
        model="duplex_sdk.testing.echo_stage:EchoModel",
        backends=(backend,),
        max_batch=BATCH,
        device="cpu",
    )
    echoes = _Echoes()
    pools = build_pools(PipelineConfig(stages=(stage,)), echoes, output_rate=None)
    await start_pools(pools, lambda fraction, text: None)
    try:
        yield pools[0], echoes
    finally:
        await stop_pools(pools, grace_s=2.0)


def _prompt(workload: Units) -> StagePrompt:
    samples = workload.input_rate_hz * workload.unit_ms // 1000
    return StagePrompt(audio=PcmChunk(bytes(4 * samples), workload.input_rate_hz))


async def _lockstep(workload: Units, backend: Backend) -> float:
    """Median microseconds from a unit's submission to its output."""
    prompt, trips = _prompt(workload), []
    async with _echo_pool(backend) as (pool, echoes):
        pool.open(StageSession("s"))
        for seq in range(workload.warm_up + workload.lockstep):
            echoes.expect(0, 1)
            start = time.perf_counter()
            pool.submit(UnitRequest("s", "r", 0, 0, seq, prompt))
            await echoes.done[0].wait()
            trips.append((time.perf_counter() - start) * 1e6)
    return quantile(trips[workload.warm_up :], 0.5)


async def _batches(workload: Units, backend: Backend) -> tuple[float, float]:
    """Units per second when whole batches are on the way, and microseconds of CPU for each."""
    rounds = max(1, workload.pipelined // BATCH // GROUPS)
    prompt = _prompt(workload)
    async with _echo_pool(backend) as (pool, echoes):

        async def talk(group: int, count: int) -> None:
            names = [f"{group}/{place}" for place in range(BATCH)]
            for name in names:
                pool.open(StageSession(name))
            for seq in range(count):
                echoes.expect(group, BATCH)
                for name in names:
                    pool.submit(UnitRequest(name, "r", 0, group, seq, prompt))
                await echoes.done[group].wait()

        await asyncio.gather(*(talk(group, 5) for group in range(GROUPS)))
        start, cpu = time.perf_counter(), _cpu(pool)
        await asyncio.gather(*(talk(group, rounds) for group in range(GROUPS)))
        wall, cpu = time.perf_counter() - start, _cpu(pool) - cpu
    units = rounds * BATCH * GROUPS
    return units / wall, cpu / units * 1e6


def _cpu(pool: StagePool) -> float:
    """Seconds of CPU so far, of this process and of the pool's own ones."""
    workers = (status.pid for status in pool.replicas if status.pid is not None)
    return time.process_time() + sum(map(cpu_of, workers))
