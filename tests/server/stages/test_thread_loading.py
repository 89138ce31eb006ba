"""A model that is loading on a thread when nobody wants it any more."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest
from duplex_sdk.stage import (
    LoadContext,
    StageInfo,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
)
from duplex_server.stages import ReplicaSink, StageReplica
from duplex_server.stages.inline_replica import HostSettings
from duplex_server.stages.thread_replica import ThreadReplica
from patience import PATIENCE_S


class Slow(StageModel[None]):
    """Loads until it is let go."""

    def __init__(self) -> None:
        self.loading = threading.Event()
        self.let_go = threading.Event()
        self.unloaded = threading.Event()

    def load(self, context: LoadContext) -> StageInfo:
        self.loading.set()
        self.let_go.wait(PATIENCE_S)
        return StageInfo()

    def open(self, session: StageSession) -> None:
        return None

    def step_unit(self, unit: StageUnit[None], now: float) -> Iterable[StageOutput]:
        return []

    def unload(self) -> None:
        self.unloaded.set()


class Nobody(ReplicaSink):
    def on_result(self, replica: StageReplica, result: Any) -> None:
        pass

    def on_dead(self, replica: StageReplica, reason: str) -> None:
        pass


async def test_a_start_that_is_cancelled_ends_when_the_model_has_let_go() -> None:
    model = Slow()
    settings = HostSettings(model=lambda: model, context=LoadContext(), clock=time.monotonic)
    replica = ThreadReplica(settings, Nobody(), call_timeout_s=10.0, name="slow")
    starting = asyncio.create_task(replica.start(lambda fraction, text: None))
    await asyncio.to_thread(model.loading.wait, 10)
    starting.cancel()
    await asyncio.sleep(0)
    assert not starting.done()
    model.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert model.unloaded.is_set()
