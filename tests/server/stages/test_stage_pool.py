from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from duplex_sdk.stage import (
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageLoadError,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
)
from duplex_server.stages import (
    NoCreditError,
    StageCallError,
    StageUnavailableError,
    build_pools,
    call_pools,
    start_pools,
    stop_pools,
)
from patience import PATIENCE_S, wait_until

BOTH = pytest.mark.parametrize("quick", [False, True], ids=["thread", "loop"])


@BOTH
class TestSessions:
    async def test_a_unit_is_answered(self, shop: Any, quick: bool) -> None:
        pool = await shop.pool(quick=quick)
        assert pool.open(StageSession("a")) == 0
        seq = shop.submit(pool, "a", "hello")
        await shop.heard.until(lambda: bool(shop.heard.idle))
        assert [output.text for output in shop.heard.outputs] == ["hello"]
        assert shop.heard.taken == [("a", seq)]
        assert shop.heard.idle == ["a"]

    async def test_credit_is_two_and_comes_back(self, shop: Any, quick: bool) -> None:
        pool = await shop.pool(quick=quick)
        pool.open(StageSession("a"))
        assert pool.room("a") == 2
        shop.submit(pool, "a", "one")
        shop.submit(pool, "a", "two")
        assert pool.room("a") == 0
        with pytest.raises(NoCreditError):
            pool.submit(shop.unit("a", "three"))
        await shop.heard.until(lambda: len(shop.heard.taken) == 2)
        assert pool.room("a") == 2

    async def test_a_tick_keeps_a_session_busy(self, shop: Any, quick: bool) -> None:
        pool = await shop.pool(quick=quick)
        pool.open(StageSession("a"))
        shop.submit(pool, "a", again_ms=20)
        await shop.heard.until(lambda: bool(shop.heard.taken))
        assert not pool.is_idle("a")
        await shop.heard.until(lambda: bool(shop.heard.idle))
        assert [output.text for output in shop.heard.outputs] == [None, "tick"]
        assert pool.is_idle("a")

    async def test_a_held_session_gets_its_tick_later(self, shop: Any, quick: bool) -> None:
        pool = await shop.pool(quick=quick)
        pool.open(StageSession("a"))
        pool.hold("a", True)
        shop.submit(pool, "a", again_ms=0)
        await shop.heard.until(lambda: bool(shop.heard.taken))
        assert not pool.is_idle("a")
        pool.hold("a", False)
        await shop.heard.until(lambda: bool(shop.heard.idle))
        assert shop.heard.outputs[-1].text == "tick"

    async def test_close_returns_when_the_state_is_gone(self, shop: Any, quick: bool) -> None:
        pool = await shop.pool(quick=quick)
        pool.open(StageSession("a"))
        await asyncio.gather(pool.close("a"), pool.close("a"))
        assert ("close", "a") in shop.events
        assert not pool.is_open("a")
        await pool.close("a")
        await pool.close("nobody")
        assert shop.events.count(("close", "a")) == 1

    async def test_a_closing_session_takes_nothing_and_says_nothing(
        self, shop: Any, quick: bool
    ) -> None:
        pool = await shop.pool(quick=quick)
        pool.open(StageSession("a"))
        # The close begins first, so that the unit is already on its way when it does.
        await asyncio.sleep(0.01)
        closing = asyncio.ensure_future(pool.close("a"))
        shop.submit(pool, "a", "unheard")
        await asyncio.sleep(0)
        with pytest.raises(StageUnavailableError):
            pool.submit(shop.unit("a", "more"))
        await closing
        assert shop.heard.outputs == []

    async def test_cancel_silences_the_old_epoch_at_once(self, shop: Any, quick: bool) -> None:
        pool = await shop.pool(quick=quick)
        pool.open(StageSession("a"))
        shop.submit(pool, "a", "old")
        pool.cancel("a", 1, 0.0)
        shop.submit(pool, "a", "new", epoch=1)
        await shop.heard.until(lambda: bool(shop.heard.outputs))
        await shop.heard.until(lambda: len(shop.heard.taken) == 2)
        assert [output.text for output in shop.heard.outputs] == ["new"]
        assert ("cancel", "a", 1) in shop.events

    async def test_what_is_not_open_is_refused_or_ignored(self, shop: Any, quick: bool) -> None:
        pool = await shop.pool(quick=quick)
        with pytest.raises(StageUnavailableError, match="not open"):
            pool.submit(shop.unit("nobody", "x"))
        pool.update(StageSession("nobody"))
        pool.cancel("nobody", 1, 0.0)
        pool.hold("nobody", True)
        assert pool.room("nobody") == 0
        assert pool.is_idle("nobody")
        assert pool.replica_of("nobody") is None

    async def test_a_collective_call_reaches_every_replica(self, shop: Any, quick: bool) -> None:
        pool = await shop.pool(quick=quick, replicas=2)
        answers = await pool.call("name", {"who": "me"}, timeout_s=PATIENCE_S)
        assert answers == ["echo of me", "echo of me"]
        with pytest.raises(StageCallError, match="answers no call"):
            await pool.call("nonsense", {}, timeout_s=PATIENCE_S)

    async def test_stop_closes_all_and_unloads(self, shop: Any, quick: bool) -> None:
        pool = await shop.pool(quick=quick)
        pool.open(StageSession("a"))
        await pool.stop(5.0)
        assert shop.events[-2:] == [("close", "a"), ("unload",)]
        assert not pool.alive
        with pytest.raises(StageUnavailableError):
            pool.open(StageSession("b"))


class TestPlacement:
    async def test_the_least_loaded_replica_is_taken_and_kept(self, shop: Any) -> None:
        pool = await shop.pool(quick=True, replicas=2)
        assert [pool.open(StageSession(name)) for name in "abc"] == [0, 1, 0]
        await pool.close("a")
        await pool.close("c")
        assert pool.open(StageSession("d")) == 0
        assert pool.open(StageSession("b")) == 1
        assert pool.submit(shop.unit("b", "x")) == 1

    async def test_capacity_is_the_sum_and_is_kept(self, shop: Any) -> None:
        shop.max_sessions = 1
        pool = await shop.pool(quick=True, replicas=2)
        assert pool.capacity == 2
        pool.open(StageSession("a"))
        pool.open(StageSession("b"))
        with pytest.raises(StageUnavailableError, match="as many sessions"):
            pool.open(StageSession("c"))
        await pool.close("a")
        assert pool.open(StageSession("c")) == 0

    async def test_no_limit_of_the_model_is_no_limit_of_the_pool(self, shop: Any) -> None:
        pool = await shop.pool(quick=True)
        assert pool.capacity is None

    async def test_an_evicted_replica_fails_its_sessions_and_stays_out(self, shop: Any) -> None:
        pool = await shop.pool(quick=True, replicas=2)
        pool.open(StageSession("a"))
        pool.open(StageSession("b"))
        await pool.evict(0)
        assert [who for who, _ in shop.heard.failed] == ["a"]
        assert [status.state for status in pool.replicas] == ["evicted", "ready"]
        assert pool.open(StageSession("c")) == 1
        await pool.close("a")
        with pytest.raises(IndexError):
            await pool.evict(7)


class TestThreads:
    async def test_all_calls_come_from_one_thread_that_is_not_the_loops(self, shop: Any) -> None:
        pool = await shop.pool()
        for name in "abcd":
            pool.open(StageSession(name))
            shop.submit(pool, name, "x")
        await shop.heard.until(lambda: len(shop.heard.idle) == 4)
        (model,) = shop.models
        assert len(model.threads) == 1
        assert threading.get_ident() not in model.threads

    async def test_a_quick_model_runs_on_the_loop_and_once_per_turn_of_it(self, shop: Any) -> None:
        pool = await shop.pool(quick=True)
        for name in "abcd":
            pool.open(StageSession(name))
            shop.submit(pool, name, "x")
        await shop.heard.until(lambda: len(shop.heard.idle) == 4)
        (model,) = shop.models
        assert model.threads == {threading.get_ident()}
        assert [report.batch for report in shop.heard.reports] == [4]

    async def test_a_stuck_call_costs_its_sessions_and_the_replica_comes_back(
        self, shop: Any
    ) -> None:
        pool = await shop.pool(call_timeout_s=0.1)
        pool.open(StageSession("a"))
        pool.open(StageSession("b"))
        shop.submit(pool, "a", sleep_s=0.6)
        await shop.heard.until(lambda: len(shop.heard.failed) == 2)
        ((_, error), _) = shop.heard.failed
        assert (error.code, error.scope) == ("runtime_failed", "session")
        assert "longer than 0.1 s" in error.message
        await asyncio.wait_for(pool.close("a"), 1.0)
        await shop.heard.until(lambda: shop.heard.ready == [(0, 0), (0, 1)])
        pool.open(StageSession("c"))
        shop.submit(pool, "c", "alive")
        await shop.heard.until(lambda: bool(shop.heard.outputs))
        assert [output.text for output in shop.heard.outputs] == ["alive"]
        assert pool.replicas[0].restarts == 1
        # The abandoned thread wakes up, says nothing, and cleans up after itself.
        assert await asyncio.to_thread(shop.unloaded.wait, 5.0)
        assert [output.text for output in shop.heard.outputs] == ["alive"]

    async def test_a_close_that_waits_for_a_stuck_replica_is_let_go(self, shop: Any) -> None:
        pool = await shop.pool(call_timeout_s=0.1)
        pool.open(StageSession("a"))
        shop.submit(pool, "a", sleep_s=0.4)
        await asyncio.wait_for(pool.close("a"), 2.0)
        assert shop.heard.failed == []

    async def test_a_restart_that_fails_is_tried_again(self, shop: Any) -> None:
        pool = await shop.pool(call_timeout_s=0.1)
        pool.open(StageSession("a"))
        shop.load_failures = 2
        shop.submit(pool, "a", sleep_s=0.3)
        await shop.heard.until(lambda: (0, 3) in shop.heard.ready)
        assert pool.replicas[0].state == "ready"
        assert pool.replicas[0].reason == "no weights"


class TestStarting:
    @BOTH
    async def test_a_model_that_does_not_load_stops_the_start(self, shop: Any, quick: bool) -> None:
        shop.load_failures = 1
        pool = shop.unstarted(quick=quick, replicas=2)
        with pytest.raises(StageLoadError) as caught:
            await pool.start(lambda fraction, text: None)
        assert caught.value.hint == "fetch them"
        assert not pool.alive

    @BOTH
    async def test_progress_rises_over_all_replicas(self, shop: Any, quick: bool) -> None:
        seen: list[float] = []
        pool = shop.unstarted(quick=quick, replicas=2)
        await pool.start(lambda fraction, text: seen.append(fraction))
        assert seen == [0.25, 0.75, 1.0]


class Meeting(StageModel[None]):
    """Notes how many of its kind load at once; each gives the others time to come.

    Those that are to meet wait for each other as long as it takes.
    """

    lock = threading.Lock()
    loading = 0
    most = 0
    waits_s = 0.0

    def load(self, context: LoadContext) -> StageInfo:
        kind = type(self)
        with kind.lock:
            kind.loading += 1
            kind.most = max(kind.most, kind.loading)
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: kind.most > 1, kind.waits_s)
        with kind.lock:
            kind.loading -= 1
        return StageInfo()

    def open(self, session: StageSession) -> None:
        return None

    def step_unit(self, unit: StageUnit[None], now: float) -> Iterable[StageOutput]:
        return []


class TestPipelines:
    def pipeline(self, **first: Any) -> PipelineConfig:
        model = "duplex_sdk.testing.scripted.stage:ScriptedModel"
        return PipelineConfig(
            (
                StageConfig("one", **{"model": model, "quick": True, **first}),
                StageConfig("two", model=model),
            )
        )

    @pytest.mark.parametrize(
        ("heavy", "most"),
        [
            ({}, 2),
            ({"memory_bytes": 400}, 2),
            ({"memory_bytes": 600}, 1),
            ({"memory_bytes": 300, "replicas": 2}, 1),
            ({"device": "elsewhere:0"}, 1),
        ],
    )
    async def test_only_what_main_memory_holds_together_loads_at_once(
        self, shop: Any, monkeypatch: pytest.MonkeyPatch, heavy: dict[str, Any], most: int
    ) -> None:
        monkeypatch.setattr("duplex_server.stages.pipeline.free_memory", lambda device: 1000)
        Meeting.loading = Meeting.most = 0
        Meeting.waits_s = PATIENCE_S if most > 1 else 0.25
        stages = tuple(
            StageConfig(name, model=f"{__name__}:Meeting", **{"device": "cpu", **heavy})
            for name in ("one", "two")
        )
        pools = build_pools(PipelineConfig(stages), shop.heard, output_rate=None)
        await start_pools(pools, lambda fraction, text: None)
        await stop_pools(pools, grace_s=1.0)
        assert Meeting.most == most

    async def test_pools_start_and_answer_collective_calls(self, shop: Any) -> None:
        pools = build_pools(self.pipeline(), shop.heard, output_rate=24_000)
        seen: list[float] = []
        await start_pools(pools, lambda fraction, text: seen.append(fraction))
        try:
            assert seen == sorted(seen)
            assert [pool.alive for pool in pools] == [True, True]
            with pytest.raises(StageCallError):
                await call_pools(pools, "nothing", {}, timeout_s=PATIENCE_S)
        finally:
            await stop_pools(pools, grace_s=1.0)

    async def test_a_failing_stage_stops_the_others(self, shop: Any) -> None:
        broken = PipelineConfig(
            (*self.pipeline().stages[:1], StageConfig("two", model="no_such_module:Model"))
        )
        pools = build_pools(broken, shop.heard, output_rate=None)
        with pytest.raises(StageLoadError, match="does not import"):
            await start_pools(pools, lambda fraction, text: None)
        assert [pool.alive for pool in pools] == [False, False]

    @pytest.mark.parametrize(
        ("path", "says"),
        [
            ("nonsense", "does not name"),
            ("json:Missing", "has no Missing"),
            ("json:JSONDecoder", "no StageModel"),
        ],
    )
    async def test_a_path_to_no_model_says_what_is_wrong(
        self, shop: Any, path: str, says: str
    ) -> None:
        pools = build_pools(self.pipeline(model=path), shop.heard, output_rate=None)
        with pytest.raises(StageLoadError, match=says):
            await start_pools(pools, lambda fraction, text: None)

    def test_a_stage_for_another_backend_is_refused(self, shop: Any) -> None:
        with pytest.raises(StageLoadError, match="ray only"):
            build_pools(self.pipeline(backends=("ray",)), shop.heard, output_rate=None)


async def test_modules_of_models_are_imported_one_after_the_other(
    shop: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads in one library's circle of imports would see modules that are half made."""
    source = (
        "import time, threading\n"
        "from duplex_sdk.testing.echo_stage import EchoModel\n"
        "importing = [t for t in threading.enumerate() if getattr(t, 'importing', False)]\n"
        "threading.current_thread().importing = True\n"
        "time.sleep(0.05)\n"
        "threading.current_thread().importing = False\n"
        "class Model(EchoModel):\n"
        "    alone = not importing\n"
    )
    names = ("first_of_two_models", "second_of_two_models")
    for name in names:
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    stages = tuple(StageConfig(name, model=f"{name}:Model", device="cpu") for name in names)
    pools = build_pools(PipelineConfig(stages), shop.heard, output_rate=None)
    await start_pools(pools, lambda fraction, text: None)
    await stop_pools(pools, grace_s=1.0)
    assert [sys.modules.pop(name).Model.alone for name in names] == [True, True]
