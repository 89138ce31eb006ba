from __future__ import annotations

import asyncio
import logging

import pytest
from duplex_server.engine.errors import EngineDeadError
from duplex_server.engine.rpc import RpcRouter


async def test_result_reaches_the_waiter_of_its_key() -> None:
    router = RpcRouter()
    first, second = router.register("a"), router.register("b")
    router.resolve("b", 2)
    router.resolve("a", 1)
    assert (first.result(0), second.result(0)) == (1, 2)


def test_late_result_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    router = RpcRouter()
    router.register("a")
    router.forget("a")
    with caplog.at_level(logging.WARNING):
        router.resolve("a", 1)
    assert "nobody waits" in caplog.text


def test_dead_engine_fails_present_and_future_waiters() -> None:
    router = RpcRouter()
    waiting = router.register("a")
    router.fail_all(EngineDeadError("gone"))
    later = router.register("b")
    for future in (waiting, later):
        with pytest.raises(EngineDeadError, match="gone"):
            future.result(0)


async def test_waiter_that_was_cancelled_takes_no_result() -> None:
    router = RpcRouter()
    task = asyncio.ensure_future(asyncio.wrap_future(router.register("a")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    router.resolve("a", 1)
    router.register("a").cancel()
