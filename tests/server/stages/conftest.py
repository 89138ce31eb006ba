from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import pytest
from duplex_sdk.stage import (
    LoadContext,
    StageConfig,
    StageError,
    StageInfo,
    StageLoadError,
    StageModel,
    StageOutput,
    StagePrompt,
    StageSession,
    StageUnit,
    UnitRequest,
)
from duplex_sdk.stage.host import StepReport
from duplex_server.stages import (
    ReplicaSink,
    RestartPolicy,
    StageListener,
    StagePool,
    StageReplica,
)
from duplex_server.stages.inline_replica import HostSettings
from duplex_server.stages.loop_replica import LoopReplica
from duplex_server.stages.thread_replica import ThreadReplica
from patience import PATIENCE_S


class Heard(StageListener):
    """Notes what a pool says and lets tests wait for it."""

    def __init__(self) -> None:
        self.outputs: list[StageOutput] = []
        self.failed: list[tuple[str, StageError]] = []
        self.taken: list[tuple[str, int]] = []
        self.idle: list[str] = []
        self.dead: list[tuple[int, str, tuple[str, ...]]] = []
        self.ready: list[tuple[int, int]] = []
        self.reports: list[StepReport] = []
        self.calling_pool = False
        self._changed = asyncio.Event()

    def _note(self, notes: list[Any], *items: Any) -> None:
        assert not self.calling_pool, "called back from inside a call to the pool"
        notes.extend(items)
        self._changed.set()

    def on_outputs(self, stage_id: int, replica_id: int, outputs: Sequence[StageOutput]) -> None:
        self._note(self.outputs, *outputs)

    def on_failed(self, stage_id: int, session_id: str, error: StageError) -> None:
        self._note(self.failed, (session_id, error))

    def on_taken(self, stage_id: int, session_id: str, epoch: int, seq: int) -> None:
        self._note(self.taken, (session_id, seq))

    def on_idle(self, stage_id: int, session_id: str) -> None:
        self._note(self.idle, session_id)

    def on_report(self, stage_id: int, replica_id: int, report: StepReport) -> None:
        self._note(self.reports, report)

    def on_replica_dead(
        self, stage_id: int, replica_id: int, reason: str, session_ids: Sequence[str]
    ) -> None:
        self._note(self.dead, (replica_id, reason, tuple(session_ids)))

    def on_replica_ready(self, stage_id: int, replica_id: int, restarts: int) -> None:
        self._note(self.ready, (replica_id, restarts))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Echo(StageModel[str]):
    """Says what it is told: a prompt's text, or what its ``data`` orders."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.threads: set[int] = set()
        shop.models.append(self)

    def load(self, context: LoadContext) -> StageInfo:
        context.progress(0.5, "half way")
        if self.shop.load_failures:
            self.shop.load_failures -= 1
            raise StageLoadError("no weights", "fetch them")
        return StageInfo(max_sessions=self.shop.max_sessions)

    def open(self, session: StageSession) -> str:
        self.threads.add(threading.get_ident())
        self.shop.events.append(("open", session.session_id, self.shop.models.index(self)))
        return session.session_id

    def step_unit(self, unit: StageUnit[str], now: float) -> Iterable[StageOutput]:
        self.threads.add(threading.get_ident())
        order = dict(unit.prompt.data)
        if "sleep_s" in order:
            time.sleep(order["sleep_s"])
        if "again_ms" in order:
            return [unit.output(again_ms=order["again_ms"])]
        return [unit.output(text=unit.prompt.text or unit.prompt.kind)]

    def cancel(self, state: str, epoch: int, heard_ms: float) -> None:
        self.shop.events.append(("cancel", state, epoch))

    def close(self, state: str) -> None:
        self.shop.events.append(("close", state))

    def unload(self) -> None:
        self.shop.events.append(("unload",))
        self.shop.unloaded.set()

    def call(self, method: str, arguments: Any) -> Any:
        if method == "name":
            return f"echo of {arguments['who']}"
        return super().call(method, arguments)


class Shop:
    """Makes pools of ``Echo`` and remembers the models."""

    def __init__(self) -> None:
        self.models: list[Echo] = []
        self.events: list[tuple[Any, ...]] = []
        self.unloaded = threading.Event()
        self.load_failures = 0
        self.max_sessions: int | None = None
        self.heard = Heard()
        self.pools: list[StagePool] = []
        self._seq = 0

    async def pool(
        self, *, quick: bool = False, replicas: int = 1, call_timeout_s: float = 5.0
    ) -> StagePool:
        pool = self.unstarted(quick=quick, replicas=replicas, call_timeout_s=call_timeout_s)
        await pool.start(lambda fraction, text: None)
        return pool

    def unstarted(
        self, *, quick: bool = False, replicas: int = 1, call_timeout_s: float = 5.0
    ) -> StagePool:
        def make(replica_id: int, sink: ReplicaSink) -> StageReplica:
            settings = HostSettings(
                model=lambda: Echo(self),
                context=LoadContext(replica_id=replica_id),
                clock=time.monotonic,
            )
            if quick:
                return LoopReplica(settings, sink)
            return ThreadReplica(settings, sink, call_timeout_s=call_timeout_s, name="echo")

        config = StageConfig("echo", model="unused:Echo", replicas=replicas)
        pool = StagePool(0, config, self.heard, make_replica=make, restart=RestartPolicy((0.01,)))
        self.pools.append(pool)
        return pool

    def unit(self, session_id: str, text: str = "", *, epoch: int = 0, **data: Any) -> UnitRequest:
        self._seq += 1
        prompt = StagePrompt(text=text or None, data=data)
        return UnitRequest(session_id, f"{session_id}/{epoch}", epoch, 1, self._seq, prompt)

    def submit(self, pool: StagePool, *unit: Any, **order: Any) -> int:
        request = self.unit(*unit, **order)
        self.heard.calling_pool = True
        pool.submit(request)
        self.heard.calling_pool = False
        return request.seq


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    shop = Shop()
    yield shop
    for pool in shop.pools:
        await pool.stop(1.0)
