from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from duplex_sdk.stage import LoadContext, StageSession
from duplex_sdk.stage.host import HostResult
from duplex_server.stages import ReplicaSink, StageReplica
from duplex_server.stages.inline_replica import HostSettings
from duplex_server.stages.loop_replica import LoopReplica
from duplex_server.stages.thread_replica import ThreadReplica
from patience import PATIENCE_S


class Sink(ReplicaSink):
    def __init__(self) -> None:
        self.results: list[HostResult] = []
        self.dead: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_result(self, replica: StageReplica, result: HostResult) -> None:
        self.results.append(result)

    def on_dead(self, replica: StageReplica, reason: str) -> None:
        self.dead.set_result(reason)


class BreakingClock:
    """A host's dependency that fails once it is told to."""

    broken = False

    def __call__(self) -> float:
        if self.broken:
            self.broken = False
            raise OSError("no clock")
        return time.monotonic()


def on_loop(settings: HostSettings, sink: ReplicaSink) -> StageReplica:
    return LoopReplica(settings, sink)


def on_thread(settings: HostSettings, sink: ReplicaSink) -> StageReplica:
    return ThreadReplica(settings, sink, call_timeout_s=5.0, name="breaks")


@pytest.mark.parametrize("make", [on_loop, on_thread])
async def test_a_host_that_breaks_down_is_reported_once_and_stays_silent(
    make: Callable[..., StageReplica], shop: Any
) -> None:
    clock, sink = BreakingClock(), Sink()
    model = type((await shop.pool(quick=True)) and shop.models[0])
    settings = HostSettings(model=lambda: model(shop), context=LoadContext(), clock=clock)
    replica = make(settings, sink)
    await replica.start(lambda fraction, text: None)
    replica.open(StageSession("a"))
    await asyncio.sleep(0.05)
    clock.broken = True
    replica.units([shop.unit("a", "x")])
    reason = await asyncio.wait_for(sink.dead, PATIENCE_S)
    assert "no clock" in reason
    seen = len(sink.results)
    replica.close("a")
    await asyncio.sleep(0.05)
    assert len(sink.results) == seen
    await replica.stop(1.0)
    assert ("unload",) in shop.events
