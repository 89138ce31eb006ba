"""The pools of a whole pipeline: made, loaded in order, stopped together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from duplex_sdk.stage import Json, PipelineConfig

from .deployment import Deployment
from .listener import StageListener
from .placing import StagePlacing
from .pool import StagePool
from .replica import Progress

__all__ = ["build_pools", "call_pools", "start_pools", "stop_pools"]

STAGE_CALL_TIMEOUT_S = 30.0


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
    """Load the pools in order.

    Args:
        pools: of one pipeline.
        progress: called with 0..1 over all pools, and what is being loaded.

    Raises:
        StageLoadError: one does not load; all are stopped again.
    """
    count = len(pools)
    try:
        for index, pool in enumerate(pools):

            def part(fraction: float, text: str, done: int = index) -> None:
                progress((done + fraction) / count, text)

            await pool.start(part)
    except BaseException:
        await stop_pools(pools, grace_s=0.0)
        raise


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
