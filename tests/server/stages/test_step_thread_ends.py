"""A replica whose step thread ended, whatever ended it, is dead: nobody waits for it for ever."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.stage import (
    PipelineConfig,
    StageConfig,
    StageLoadError,
    StagePrompt,
    StageSession,
    UnitRequest,
)
from duplex_server.stages import Deployment, RestartPolicy, StagePool, build_pools, stop_pools

MODELS = Path(__file__).parents[2] / "worker_models"
MakePool = Callable[..., StagePool]


@pytest.fixture(params=["inline", "process"])
async def make_pool(
    request: pytest.FixtureRequest, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MakePool]:
    monkeypatch.syspath_prepend(str(MODELS))
    monkeypatch.setenv("PYTHONPATH", str(MODELS))
    made: list[StagePool] = []

    def make(**options: Any) -> StagePool:
        stage = StageConfig(
            "ear",
            model="interrupted:Interrupted",
            backends=(request.param,),
            device="cpu",
            options=options,
        )
        deployment = Deployment(restart=RestartPolicy((0.01,)))
        pools = build_pools(
            PipelineConfig((stage,)), shop.heard, output_rate=None, deployment=deployment
        )
        made.extend(pools)
        return pools[0]

    yield make
    await stop_pools(made, grace_s=2.0)


async def test_while_it_loads_the_start_fails(make_pool: MakePool) -> None:
    with pytest.raises(StageLoadError):
        await make_pool(load=True).start(lambda fraction, text: None)


async def test_while_it_steps_its_sessions_end_and_it_is_started_again(
    make_pool: MakePool, shop: Any
) -> None:
    pool = make_pool()
    await pool.start(lambda fraction, text: None)
    pool.open(StageSession("a"))
    pool.submit(UnitRequest("a", "a/0", 0, 1, 1, StagePrompt(text="interrupt")))
    await shop.heard.until(lambda: bool(shop.heard.failed))
    ((session_id, error),) = shop.heard.failed
    assert (session_id, error.code, error.scope) == ("a", "runtime_failed", "session")
    await shop.heard.until(lambda: shop.heard.ready == [(0, 0), (0, 1)])
    pool.open(StageSession("b"))
    pool.submit(UnitRequest("b", "b/0", 0, 1, 1, StagePrompt(text="speak")))
    await shop.heard.until(lambda: bool(shop.heard.outputs))
    assert [output.text for output in shop.heard.outputs] == ["said"]
