"""A start that is called off while a model loads, as by Ctrl-C."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest
from duplex_sdk.stage import (
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageModel,
    StageSession,
)
from duplex_server.engine.omni_engine_base import EngineOptions
from duplex_server.entrypoints import AsyncOmni

loading, loaded = threading.Event(), threading.Event()


class Slow(StageModel[None]):
    """Loads until it is told that it has loaded."""

    def load(self, context: LoadContext) -> StageInfo:
        loading.set()
        loaded.wait(60)
        return StageInfo()

    def open(self, session: StageSession) -> None:
        return None

    def step_unit(self, unit: Any, now: float) -> Any:
        return []


@pytest.fixture(autouse=True)
def _not_yet() -> None:
    loading.clear()
    loaded.clear()


async def test_is_over_without_a_word_of_complaint() -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, told: complaints.append(told))
    stage = StageConfig("slow", model=f"{__name__}:Slow", backends=("inline",), device="cpu")
    pipeline = PipelineConfig((stage,), turn_requests=True)
    omni = AsyncOmni(pipeline=pipeline, options=EngineOptions())
    starting = asyncio.create_task(omni.start())
    await asyncio.to_thread(loading.wait, 60)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    loaded.set()
    await omni.stop()
    assert not omni.alive
    # What nobody asked for complains when it is forgotten.
    del starting, omni
    gc.collect()
    assert complaints == []
