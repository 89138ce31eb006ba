"""The engine's own work is called off, fails or hangs at each place where it waits: nothing stays.

One life holds everything a session can have the shell do: open, append, commit, cancel, resume and
close. It is lived again and again, and each time another wait of the engine's tasks goes wrong.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from duplex_sdk.plugin import (
    DuplexModelPlugin,
    DuplexSessionRuntimeConfig,
    DuplexStagePort,
    DuplexStageRequestContext,
    DuplexStageSubmission,
    DuplexStageSubmissionResult,
)
from duplex_sdk.session.engine_session import DuplexEngineSession
from duplex_sdk.stage import Json
from duplex_sdk.testing.cancel_points import CancelPoint, Moment
from duplex_sdk.testing.scripted import plugin as scripted
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import tone
from duplex_server.entrypoints import DuplexOmni, DuplexSessionError, DuplexSessionHandle
from duplex_server.testing import Harness
from patience import PATIENCE_S, eventually

SPEECH = tone(200, 16_000)
WAITS = {"where": "plan", "nth": "every", "do": {"hang_ms": 1}}
SCRIPT = {
    "turns": "commit",
    "pace": "realtime",
    "answers": [{"text": "one two", "ms": 2_000, "delay_ms": 0}],
    "faults": [WAITS, WAITS | {"where": "config"}],
}
PORT_CALLS = ("submit", "abort_requests", "cleanup", "release_session")


class PlansAtOnce(Scripted):
    """Needs no task for a plan."""

    prepare_append_plan = DuplexModelPlugin.prepare_append_plan


class Port(DuplexStagePort):
    """The real stages; each call waits before and after, and may go wrong at either place.

    Attributes:
        called: the calls so far, by name.
        goes_wrong: awaited at each place with its number, from 1.
    """

    def __init__(self, stages: DuplexStagePort) -> None:
        self.stages = stages
        self.called: list[str] = []
        self.goes_wrong: Callable[[int], Coroutine[Any, Any, None]] | None = None
        self._places = 0

    def begin(self, goes_wrong: Callable[[int], Coroutine[Any, Any, None]] | None) -> None:
        self.goes_wrong, self._places = goes_wrong, 0

    @property
    def stage_count(self) -> int:
        return self.stages.stage_count

    def sampling_defaults(self) -> tuple[Mapping[str, Json], ...]:
        return self.stages.sampling_defaults()

    def ensure_request(self, context: DuplexStageRequestContext) -> None:
        self.stages.ensure_request(context)

    async def submit(self, submission: DuplexStageSubmission) -> DuplexStageSubmissionResult:
        taken: DuplexStageSubmissionResult = await self._around(
            "submit", self.stages.submit(submission)
        )
        return taken

    async def cleanup(self, request_ids: Iterable[str], *, abort: bool = False) -> None:
        await self._around("cleanup", self.stages.cleanup(request_ids, abort=abort))

    async def abort_requests(
        self, request_ids: Iterable[str], *, heard_ms: float = 0.0, epoch: int | None = None
    ) -> None:
        work = self.stages.abort_requests(request_ids, heard_ms=heard_ms, epoch=epoch)
        await self._around("abort_requests", work)

    async def release_session(self, session_id: str) -> None:
        await self._around("release_session", self.stages.release_session(session_id))

    async def _around(self, name: str, work: Coroutine[Any, Any, Any]) -> Any:
        self.called.append(name)
        try:
            await self._place()
            result = await work
            await self._place()
        finally:
            work.close()
        return result

    async def _place(self) -> None:
        self._places += 1
        await asyncio.sleep(0)
        if self.goes_wrong is not None:
            await self.goes_wrong(self._places)


class Bench:
    """An engine whose stages wait, and the sessions that lived on it."""

    def __init__(self, omni: DuplexOmni) -> None:
        assert omni.engine.manager is not None
        self.omni = omni
        self.manager: Any = omni.engine.manager
        self.orchestrator: Any = omni.engine._orchestrator
        self.port = Port(self.manager._services.port)
        services = dataclasses.replace(self.manager._services, port=self.port)
        self.manager._services = services
        self.manager._factory._services = services
        self.resting = set(self._tasks())

    def _tasks(self) -> list[asyncio.Task[Any]]:
        loop = self.omni.engine._loop
        assert loop is not None
        return [task for task in asyncio.all_tasks(loop) if not task.done()]

    async def on_engine(self, call: Callable[[], Any]) -> Any:
        """Run something on the engine's thread."""
        loop = self.omni.engine._loop
        assert loop is not None

        async def work() -> Any:
            return call()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), loop))

    async def life(self) -> None:
        """A whole life; whatever goes wrong in it, it ends."""
        try:
            handle = await self.omni.open_session()
        except DuplexSessionError:
            return
        runner = self.manager.runner(handle.session_id)
        session: DuplexEngineSession | None = runner and runner.session
        reading = asyncio.create_task(read(handle))
        try:
            await self._talk(handle)
        except DuplexSessionError as error:
            if error.code not in ("session_closed", "unknown_session"):
                raise
        finally:
            await handle.close()
            told = await asyncio.wait_for(reading, PATIENCE_S)
        assert [told.count(kind) for kind in ("session.closed",)] == [1]
        assert told[-1] == "session.closed"
        assert told.count("response.created") == told.count("response.done")
        if session is not None:
            assert session.state.input_bytes.total == 0
            assert session.state.pending_turns.total == 0
            assert not session.state.lease.active_operations
            assert session.waiting_commands == 0

    async def _talk(self, handle: DuplexSessionHandle) -> None:
        for _ in range(2):
            handle.append_audio(SPEECH)
            handle.commit(response_create=True)
            await self._quiet(handle)
            handle.cancel_response()
            await self._quiet(handle)
        await self.omni.detach_session(handle.session_id, handle.lease_generation)
        await self.omni.resume_session(handle.session_id, handle.lease_generation)

    async def _quiet(self, handle: DuplexSessionHandle) -> None:
        """The engine has done what it was asked for."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                await self.omni.touch_session(handle.session_id, "heartbeat")
                runner = self.manager.runner(handle.session_id)
                if runner is None or not len(runner._ops):
                    return
                await asyncio.sleep(0.001)

    def left(self) -> list[str]:
        """Slots, sessions, requests, streams and tasks that are there now."""
        manager, orchestrator = self.manager, self.orchestrator
        kept: dict[str, Any] = {
            "slots": self.omni.health().slots_used,
            "handles": self.omni.sessions,
            "tasks": set(self._tasks()) - self.resting,
            "table": not manager._table.empty,
            "requests": orchestrator.request_count,
            "streams": orchestrator.stream_count,
        }
        for name in ("_opens", "_preparing", "_prepared", "_runners", "_retries", "_todo"):
            kept[name] = getattr(manager, name)
        return [name for name, value in kept.items() if value]

    async def assert_empty(self) -> None:
        """Nothing of any session is left, once the engine's thread has done its work."""
        try:
            await eventually(lambda: not self.left())
        except TimeoutError:
            raise AssertionError(f"{self.left()} are left") from None


async def read(handle: DuplexSessionHandle) -> list[str]:
    return [event.type async for event in handle.events()]


@asynccontextmanager
async def a_bench(**limits: Any) -> AsyncIterator[Bench]:
    config = DuplexSessionRuntimeConfig(**{"max_sessions": 1, "reaper_interval_s": 0.01} | limits)
    async with Harness().engine("scripted", {"script": SCRIPT}, limits=config) as omni:
        yield Bench(omni)


async def test_the_life_makes_every_call_of_a_stage_port() -> None:
    async with a_bench() as bench:
        await bench.life()
        await bench.assert_empty()
        declared = {
            name
            for name, member in vars(DuplexStagePort).items()
            if getattr(member, "__isabstractmethod__", False)
            and asyncio.iscoroutinefunction(member)
        }
        assert declared == set(PORT_CALLS)
        assert set(bench.port.called) == declared


@pytest.mark.parametrize("moment", Moment)
async def test_work_cancelled_at_any_wait_leaves_nothing(moment: Moment) -> None:
    async with a_bench() as bench:
        loop = bench.omni.engine._loop
        assert loop is not None
        place, reached = 0, True
        while reached:
            place += 1
            point = CancelPoint(place, moment)

            def make(
                loop: asyncio.AbstractEventLoop, work: Any, point: CancelPoint = point, **rest: Any
            ) -> asyncio.Task[Any]:
                return asyncio.Task(point.watching(work), loop=loop, **rest)

            await bench.on_engine(partial(loop.set_task_factory, make))
            try:
                await bench.life()
            finally:
                loop.set_task_factory(None)
            await bench.assert_empty()
            reached = point.reached
        assert place > 20


async def test_a_cancel_that_overtakes_units_on_their_way_is_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="duplex_server")
    at_once = dataclasses.replace(scripted, factory=f"{__name__}:{PlansAtOnce.__name__}")
    async with Harness().engine(at_once, {"script": {"turns": "native"}}) as omni:
        handle = await omni.open_session({"auto_response": True})
        # They reach the session in one turn of its loop: the stage takes two, the next one waits.
        for _ in range(4):
            handle.append_audio(SPEECH)
        handle.cancel_input()
        await handle.close()
        told = await asyncio.wait_for(read(handle), PATIENCE_S)
    assert "error" not in told
    assert [each.message for each in caplog.records if "called off" in each.message]
    assert [each.message for each in caplog.records if each.levelno >= logging.WARNING] == []


async def raises(place: int, wrong: int) -> None:
    if place == wrong:
        raise RuntimeError("the stage failed")


async def hangs(place: int, wrong: int) -> None:
    if place == wrong:
        await asyncio.get_running_loop().create_future()


async def passes(place: int, wrong: int) -> None:
    """Nothing goes wrong."""


# Long where nothing waits for it; short where each place costs one, with tries to spare for a
# machine so slow that it strikes where it should not.
@pytest.mark.parametrize(("fault", "limit_s", "tries"), [(raises, 10.0, 1), (hangs, 0.1, 10)])
async def test_work_that_fails_or_hangs_at_any_wait_leaves_nothing(
    fault: Any, limit_s: float, tries: int
) -> None:
    async with a_bench(stage_call_timeout_s=limit_s) as bench:

        async def live(fault: Any, wrong: int) -> int:
            """A life with a fault at one place; how many places it came to."""
            places = 0

            async def goes_wrong(place: int) -> None:
                nonlocal places
                places = place
                await fault(place, wrong)

            bench.port.begin(goes_wrong)
            await bench.life()
            bench.port.begin(None)
            await bench.assert_empty()
            return places

        whole = max([await live(passes, 0) for _ in range(tries)])
        assert whole > 15
        for wrong in range(1, whole + 1):
            for _ in range(tries):
                if await live(fault, wrong) >= wrong:
                    break
            else:
                raise AssertionError(f"no life came to place {wrong}")
