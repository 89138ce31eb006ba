"""Stages in processes: what ends them, who hears of it, and that nothing is left over."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import StageConfig, StageLoadError, StagePrompt, StageSession, UnitRequest
from duplex_sdk.stage.worker import Load
from duplex_server.stages import (
    ReplicaSink,
    RestartPolicy,
    StageCallError,
    StagePool,
    StageReplica,
)
from duplex_server.stages.process_replica import ProcessReplica, WorkerSettings
from patience import PATIENCE_S, eventually, wait_until
from processes import children, exists, runs

MODELS = Path(__file__).parents[2] / "worker_models"


class Yard:
    """Makes pools of worker processes."""

    def __init__(self, heard: Any) -> None:
        self.heard = heard
        self.pools: list[StagePool] = []
        self.made: list[ProcessReplica] = []
        self._seq = 0

    def unstarted(
        self,
        *,
        model: str = "worker_models:Obedient",
        replicas: int = 1,
        call_timeout_s: float = 10.0,
        beat_s: float = 0.5,
        python: Path | None = None,
        stable_s: float = 10.0,
        period_ms: float | None = None,
        **options: Any,
    ) -> StagePool:
        def make(replica_id: int, sink: ReplicaSink) -> StageReplica:
            load = Load(
                "test", model, 0, replica_id, device="cpu", options=options, period_ms=period_ms
            )
            settings = WorkerSettings(load, f"w-{replica_id}", call_timeout_s, python, beat_s)
            self.made.append(ProcessReplica(settings, sink))
            return self.made[-1]

        config = StageConfig("w", model="unused:Here", replicas=replicas)
        policy = RestartPolicy((0.01,), stable_s)
        pool = StagePool(0, config, self.heard, make_replica=make, restart=policy)
        self.pools.append(pool)
        return pool

    async def pool(self, **settings: Any) -> StagePool:
        pool = self.unstarted(**settings)
        await pool.start(lambda fraction, text: None)
        return pool

    def unit(self, session_id: str, *, epoch: int = 0, **data: Any) -> UnitRequest:
        self._seq += 1
        prompt = StagePrompt(text=data.pop("text", None), data=data)
        return UnitRequest(session_id, f"{session_id}/{epoch}", epoch, 1, self._seq, prompt)

    def submit(self, pool: StagePool, session_id: str, **order: Any) -> int:
        unit = self.unit(session_id, **order)
        pool.submit(unit)
        return unit.seq

    def is_stepping(self) -> bool:
        """Whether the worker made last is in a call of its model."""
        pong = self.made[-1].last_pong
        return pong is not None and pong.busy_ms > 0


@pytest.fixture
def no_leaks(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    before, threads = children(), threading.active_count()
    # A short name: the address of a socket is no longer than a hundred characters.
    folder = tmp_path_factory.mktemp("s")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield
    assert children() <= before
    # The thread that kept a process says so just before it ends itself.
    wait_until(lambda: threading.active_count() <= threads)
    assert list(folder.iterdir()) == []


@pytest.fixture
async def yard(shop: Any, no_leaks: None, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Yard]:
    monkeypatch.setenv("PYTHONPATH", str(MODELS))
    yard = Yard(shop.heard)
    yield yard
    for pool in yard.pools:
        await pool.stop(2.0)


class TestSessions:
    async def test_a_session_is_served(self, yard: Yard) -> None:
        pool = await yard.pool()
        assert pool.open(StageSession("a")) == 0
        seq = yard.submit(pool, "a", text="hello")
        await yard.heard.until(lambda: bool(yard.heard.idle))
        assert [output.text for output in yard.heard.outputs] == ["hello"]
        assert yard.heard.taken == [("a", seq)]
        assert yard.heard.idle == ["a"]
        await pool.close("a")
        await pool.close("nobody")
        assert not pool.is_open("a")

    async def test_units_of_one_turn_are_one_batch(self, yard: Yard) -> None:
        pool = await yard.pool(model="worker_models:Counting")
        names = [f"s{n}" for n in range(20)]
        for name in names:
            pool.open(StageSession(name))
        audio = PcmChunk(bytes(4 * 1280), 16_000)
        for name in names:
            pool.submit(UnitRequest(name, "r", 0, 1, 1, StagePrompt(audio=audio)))
        await yard.heard.until(lambda: len(yard.heard.outputs) == 20)
        assert {output.data["batch"] for output in yard.heard.outputs} == {20}
        assert {output.audio for output in yard.heard.outputs} == {audio}

    async def test_a_unit_that_misses_its_period_is_reported_late(self, yard: Yard) -> None:
        pool = await yard.pool(period_ms=20)
        pool.open(StageSession("a"))
        yard.submit(pool, "a", sleep_s=0.05)
        await yard.heard.until(lambda: bool(yard.heard.reports))
        report = yard.heard.reports[0]
        assert (report.batch, report.late) == (1, 1)
        assert report.step_ms > 40

    async def test_cancel_and_ticks_and_holds_cross(self, yard: Yard) -> None:
        pool = await yard.pool()
        pool.open(StageSession("a"))
        pool.hold("a", True)
        yard.submit(pool, "a", again_ms=0)
        await yard.heard.until(lambda: bool(yard.heard.taken))
        assert not pool.is_idle("a")
        pool.hold("a", False)
        await yard.heard.until(lambda: bool(yard.heard.idle))
        assert yard.heard.outputs[-1].text == "tick"
        yard.submit(pool, "a", sleep_s=0.1, text="old")
        yard.submit(pool, "a", text="dropped")
        pool.cancel("a", 1, 0.0)
        await yard.heard.until(lambda: len(yard.heard.taken) == 3)
        yard.submit(pool, "a", text="new", epoch=1)
        await yard.heard.until(lambda: yard.heard.outputs[-1].text == "new")
        assert not {"old", "dropped"} & {output.text for output in yard.heard.outputs}

    async def test_a_model_that_fails_a_session_fails_no_other(self, yard: Yard) -> None:
        pool = await yard.pool()
        pool.open(StageSession("a", {"open_error": "no such voice"}))
        pool.open(StageSession("b"))
        yard.submit(pool, "b", text="well")
        await yard.heard.until(lambda: bool(yard.heard.failed and yard.heard.outputs))
        ((name, error),) = yard.heard.failed
        assert (name, error.code, error.scope) == ("a", "runtime_failed", "session")
        assert "no such voice" in error.message
        assert yard.heard.outputs[0].text == "well"

    async def test_what_no_message_carries_fails_its_own_unit(self, yard: Yard) -> None:
        pool = await yard.pool()
        for name in "abc":
            pool.open(StageSession(name, {"odd": object()} if name == "c" else {}))
        yard.submit(pool, "a", odd=object())
        yard.submit(pool, "b", text="well")
        await yard.heard.until(lambda: len(yard.heard.outputs) == 2 and bool(yard.heard.failed))
        by_name = {output.session_id: output for output in yard.heard.outputs}
        assert "cannot cross" in by_name["a"].error.message
        assert by_name["b"].text == "well"
        assert yard.heard.failed[0][0] == "c"
        assert pool.room("a") == 2

    async def test_a_collective_call_crosses_and_so_does_its_failure(self, yard: Yard) -> None:
        pool = await yard.pool(replicas=2)
        pids = await pool.call("pid", {}, timeout_s=PATIENCE_S)
        assert pids == [status.pid for status in pool.replicas]
        assert await pool.call("echo", {"x": [1]}, timeout_s=PATIENCE_S) == [{"x": [1]}] * 2
        for method, says in (("nonsense", "answers no call"), ("odd", "odd")):
            with pytest.raises(StageCallError, match=says):
                await pool.call(method, {}, timeout_s=PATIENCE_S)
        with pytest.raises(StageCallError, match="cannot cross"):
            await pool.call("echo", {"x": object()}, timeout_s=PATIENCE_S)


class TestDeath:
    async def kill_one_of_two(self, yard: Yard, pool: StagePool, number: int) -> None:
        pool.open(StageSession("a"))
        pool.open(StageSession("b"))
        victim, other = (status.pid for status in pool.replicas)
        assert victim is not None
        os.kill(victim, number)
        await yard.heard.until(lambda: bool(yard.heard.failed))
        assert [name for name, _ in yard.heard.failed] == ["a"]
        await yard.heard.until(lambda: (0, 1) in yard.heard.ready)
        assert [status.state for status in pool.replicas] == ["ready", "ready"]
        assert pool.replicas[1].pid == other
        await eventually(lambda: not exists(victim))
        yard.submit(pool, "b", text="unharmed")
        await yard.heard.until(lambda: bool(yard.heard.outputs))
        await pool.close("a")
        pool.open(StageSession("a"))
        yard.submit(pool, "a", text="again")
        await yard.heard.until(lambda: yard.heard.outputs[-1].text == "again")

    async def test_a_killed_worker_fails_what_was_bound_to_it_and_comes_back(
        self, yard: Yard
    ) -> None:
        pool = await yard.pool(replicas=2)
        await self.kill_one_of_two(yard, pool, signal.SIGKILL)
        assert "SIGKILL" in yard.heard.failed[0][1].message

    async def test_a_stopped_worker_is_found_by_its_silence(self, yard: Yard) -> None:
        pool = await yard.pool(replicas=2, beat_s=0.7)
        await self.kill_one_of_two(yard, pool, signal.SIGSTOP)
        assert "silent" in yard.heard.failed[0][1].message

    async def test_a_stuck_call_is_ended(self, yard: Yard) -> None:
        pool = await yard.pool(call_timeout_s=0.3)
        pid = pool.replicas[0].pid
        pool.open(StageSession("a"))
        yard.submit(pool, "a", sleep_s=600)
        await yard.heard.until(lambda: bool(yard.heard.failed))
        assert "took longer than 0.3 s" in yard.heard.failed[0][1].message
        assert pid is not None
        await eventually(lambda: not exists(pid))

    async def test_what_a_worker_started_ends_with_it(self, yard: Yard) -> None:
        pool = await yard.pool(child=True)
        (child,) = await pool.call("child", {}, timeout_s=PATIENCE_S)
        assert runs(child)
        os.kill(pool.replicas[0].pid or 0, signal.SIGKILL)
        await yard.heard.until(lambda: (0, 1) in yard.heard.ready)
        await eventually(lambda: not runs(child))

    async def test_a_call_under_way_fails_with_its_worker(self, yard: Yard) -> None:
        pool = await yard.pool()
        pool.open(StageSession("a"))
        yard.submit(pool, "a", sleep_s=600)
        await eventually(yard.is_stepping)
        calling = asyncio.create_task(pool.call("pid", {}, timeout_s=PATIENCE_S))
        await asyncio.sleep(0)
        os.kill(pool.replicas[0].pid or 0, signal.SIGKILL)
        with pytest.raises(StageCallError, match="gone"):
            await calling

    async def test_a_session_that_is_closing_is_closed_by_the_death(self, yard: Yard) -> None:
        pool = await yard.pool()
        pool.open(StageSession("a"))
        yard.submit(pool, "a", exit=3)
        await asyncio.wait_for(pool.close("a"), PATIENCE_S)
        assert yard.heard.failed == []

    async def test_restarts_in_a_row_are_counted_and_forgotten_when_it_works(
        self, yard: Yard
    ) -> None:
        pool = await yard.pool(stable_s=0.3)
        for count in (1, 2):
            os.kill(pool.replicas[0].pid or 0, signal.SIGKILL)
            await yard.heard.until(lambda count=count: (0, count) in yard.heard.ready)
            assert pool.replicas[0].failures == count
        await eventually(lambda: pool.replicas[0].failures == 0)
        assert pool.replicas[0].restarts == 2

    async def test_a_crash_loop_shows_its_reason(self, yard: Yard, tmp_path: Path) -> None:
        marker = tmp_path / "broken"
        pool = await yard.pool(die_at=str(marker))
        marker.touch()
        os.kill(pool.replicas[0].pid or 0, signal.SIGKILL)
        await eventually(lambda: pool.replicas[0].failures >= 3)
        assert "SIGABRT" in pool.replicas[0].reason
        assert not pool.alive

    async def test_what_it_occupies_is_seen(self, yard: Yard) -> None:
        pool = await yard.pool()
        await eventually(lambda: pool.replicas[0].memory_bytes > 1_000_000)


class TestLoading:
    async def test_progress_is_passed_on(self, yard: Yard) -> None:
        seen: list[tuple[float, str]] = []
        await yard.unstarted(replicas=2).start(lambda fraction, text: seen.append((fraction, text)))
        assert seen == [(0.125, "weights"), (0.625, "weights"), (1.0, "stage w is ready")]

    async def test_a_failed_load_tells_message_hint_and_trace(
        self, yard: Yard, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(StageLoadError, match="no weights") as failure:
            await yard.pool(load_error="no weights")
        assert failure.value.hint == "try another"
        assert "worker_models.py" in caplog.text

    async def test_what_a_worker_prints_is_logged_under_its_name(
        self, yard: Yard, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO):
            await yard.pool(prints=b"weights:  1%\rweights: 50%\rweights: done\nwarm \xff\n")
            await eventually(lambda: "warm" in caplog.text)
        assert caplog.messages[:2] == ["w-0: weights: done", "w-0: warm \ufffd"]

    async def test_a_worker_that_dies_while_loading_says_so_with_its_last_line(
        self, yard: Yard, caplog: pytest.LogCaptureFixture
    ) -> None:
        with (
            caplog.at_level(logging.INFO),
            pytest.raises(
                StageLoadError, match="exited with code 9; its last line: no such kernel"
            ),
        ):
            await yard.pool(load_exits=9)
        assert "no such kernel" in caplog.text

    @pytest.mark.parametrize(
        ("python", "says"),
        [("/no/such/python", "could not be started"), ("/bin/false", "exited with code 1")],
    )
    async def test_an_interpreter_that_cannot_run_it_is_named(
        self, yard: Yard, python: str, says: str
    ) -> None:
        with pytest.raises(StageLoadError, match=says):
            await yard.pool(python=Path(python))

    async def test_another_version_in_the_workers_environment_is_refused(
        self, yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Read by every interpreter at its start: this worker's SDK has other messages.
        (tmp_path / "sitecustomize.py").write_text(
            "import duplex_sdk.stage.worker.messages as messages\nmessages.PROTOCOL = 99\n"
        )
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), str(MODELS))))
        with pytest.raises(StageLoadError, match="protocol 99") as failure:
            await yard.pool()
        assert "same version" in (failure.value.hint or "")

    async def test_a_place_without_room_for_a_socket_is_a_failed_start(
        self, yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
        with pytest.raises(StageLoadError, match="no worker could be started"):
            await yard.pool()

    async def test_options_that_cannot_cross_are_named(self, yard: Yard) -> None:
        with pytest.raises(StageLoadError, match="cannot cross"):
            await yard.pool(odd=object())

    async def test_a_start_given_up_leaves_nothing(self, yard: Yard) -> None:
        starting = asyncio.create_task(yard.pool(load_s=600))
        await eventually(lambda: bool(yard.made and yard.made[0].pid))
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    async def test_stop_while_one_restarts_leaves_nothing(self, yard: Yard) -> None:
        before = children()
        pool = await yard.pool(load_s=0.3)
        os.kill(pool.replicas[0].pid or 0, signal.SIGKILL)
        await eventually(lambda: len(yard.made) == 2 and yard.made[1].pid is not None)
        await pool.stop(1.0)
        # Other tests of this run may have children of their own.
        await eventually(lambda: children() <= before)

    async def test_stop_waits_no_longer_than_told(self, yard: Yard) -> None:
        pool = await yard.pool()
        pool.open(StageSession("a"))
        yard.submit(pool, "a", sleep_s=600)
        await eventually(yard.is_stepping)
        async with asyncio.timeout(PATIENCE_S):
            await pool.stop(0.1)
