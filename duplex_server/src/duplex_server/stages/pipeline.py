"""The pools of a whole pipeline: made, loaded in order, stopped together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence

from duplex_sdk.stage import Json, PipelineConfig
from duplex_sdk.stage.device import free_memory, resolve_device

from .deployment import Deployment
from .listener import StageListener
from .placing import StagePlacing
from .pool import StagePool
from .replica import Progress

__all__ = ["build_pools", "call_pools", "start_pools", "stop_pools"]

STAGE_CALL_TIMEOUT_S = 30.0
_UNLOAD_S = 10.0
"""For what loaded before another stage failed to; a process that just leaves may end in a crash."""
_CPU = "cpu"


def build_pools(
    pipeline: PipelineConfig,
    listener: StageListener,
    *,
    output_rate: int | None,
    native_period_ms: float | None = None,
    stage_call_timeout_s: float = STAGE_CALL_TIMEOUT_S,
    plugin: str = "",
    deployment: Deployment | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[StagePool, ...]:
    """Make a pool per stage, none of them started.

    Args:
        pipeline: the stages.
        listener: hears what they do, on the engine loop.
        output_rate: Hz that audio of every stage must have; None: not checked.
        native_period_ms: the unit period of a model that decides its own turns: a unit of stage 0
            that takes longer is late, unless the stage says otherwise.
        stage_call_timeout_s: a call of a model that lasts longer counts as stuck.
        plugin: its name, for people.
        deployment: how workers are run, already applied to the pipeline; None: the usual way.
        clock: seconds, monotonic.

    Raises:
        StageLoadError: a stage allows no backend that is installed.
    """
    deployment = deployment or Deployment()
    pools = []
    for stage_id, config in enumerate(pipeline.stages):
        period_ms: float | None = config.period_ms
        if period_ms is None and stage_id == 0:
            period_ms = native_period_ms
        placing = StagePlacing(
            stage_id=stage_id,
            config=config,
            plugin=plugin,
            output_rate=output_rate,
            period_ms=period_ms,
            call_timeout_s=stage_call_timeout_s,
            worker_python=deployment.python_of(config.id),
            clock=clock,
            places=deployment.places_of(config.id),
        )
        pools.append(
            StagePool(
                stage_id,
                config,
                listener,
                make_replica=placing.factory(),
                restart=deployment.restart,
                clock=clock,
            )
        )
    return tuple(pools)


async def start_pools(pools: Sequence[StagePool], progress: Progress) -> None:
    """Load all pools: at once where main memory holds them all, else one after the other.

    Args:
        pools: of one pipeline.
        progress: called with 0..1 over all pools, and what is being loaded.

    Raises:
        StageLoadError: one does not load; all are stopped again.
    """
    parts = [0.0] * len(pools)

    def part_of(index: int) -> Progress:
        def report(fraction: float, text: str) -> None:
            parts[index] = fraction
            progress(sum(parts) / len(parts), text)

        return report

    async def load(indices: Sequence[int]) -> None:
        for index in indices:
            await pools[index].start(part_of(index))

    heavy = _one_after_the_other(pools)
    rows = [heavy, *([index] for index in range(len(pools)) if index not in heavy)]
    try:
        await _all_or_none([load(row) for row in rows if row])
    except BaseException:
        await stop_pools(pools, grace_s=_UNLOAD_S)
        raise


def _one_after_the_other(pools: Sequence[StagePool]) -> list[int]:
    """Those that must not load at once: each looks for its own memory only when it is its turn."""
    needs = {
        index: pool.config.memory_bytes * pool.config.replicas
        for index, pool in enumerate(pools)
        # A device that was named may be another machine's, so it is not looked for here.
        if (pool.config.device or resolve_device(None)) == _CPU
    }
    free = free_memory(_CPU)
    if free is not None and sum(needs.values()) <= free:
        return [index for index in range(len(pools)) if index not in needs]
    return [index for index in range(len(pools)) if needs.get(index) != 0]


async def _all_or_none(work: Sequence[Coroutine[None, None, None]]) -> None:
    """Do all of it at once; the first failure calls off the rest, and is raised when that ended."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [each for each in outcomes if isinstance(each, BaseException)]
    # One that was only called off says nothing.
    failures.sort(key=lambda failure: isinstance(failure, asyncio.CancelledError))
    for failure in failures:
        raise failure


async def stop_pools(pools: Sequence[StagePool], *, grace_s: float) -> None:
    """Stop the pools, the last stage first, so that none feeds one that is gone."""
    for pool in reversed(pools):
        await pool.stop(grace_s)


async def call_pools(
    pools: Sequence[StagePool], method: str, arguments: Mapping[str, Json], *, timeout_s: float
) -> dict[str, list[Json]]:
    """A collective call to every replica of every stage: the answers by stage id.

    Raises:
        StageCallError: a replica refused, failed, or was not in time.
    """
    return {
        pool.config.id: await pool.call(method, arguments, timeout_s=timeout_s) for pool in pools
    }
