"""The orchestrators' seams: each is called where the table of the design says, and nowhere else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexCapabilities, DuplexModelPlugin, PluginSpec
from duplex_sdk.stage import (
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageInputContext,
    StageModel,
    StageOutput,
    StagePrompt,
    StageSession,
    StageUnit,
    pass_on,
)
from duplex_server.engine import async_omni_engine, duplex_omni_engine
from duplex_server.engine.duplex_orchestrator import DuplexOrchestrator
from duplex_server.engine.errors import RequestFailedError
from duplex_server.engine.omni_engine_base import EngineOptions
from duplex_server.engine.orchestrator import Orchestrator
from duplex_server.engine.orchestrator_base import OrchestratorBase
from duplex_server.entrypoints import AsyncOmni, DuplexOmni, DuplexSessionHandle
from duplex_server.runtime.session_runner import DuplexSessionRunner
from duplex_server.testing import Harness
from patience import PATIENCE_S, eventually

SEEN: list[tuple[str, Any]] = []
"""(seam, detail), in order, of the test under way."""


class Watched(OrchestratorBase):
    """Notes every call of a seam and what came of it. The seams themselves are those in use."""

    def _dispatch_message(self, message: Any) -> bool:
        taken = super()._dispatch_message(message)
        SEEN.append(("dispatch", (type(message).__name__, taken)))
        return taken

    def _background_tasks(self) -> list[Coroutine[Any, Any, None]]:
        SEEN.append(("background", None))
        return [*super()._background_tasks(), self._wait()]

    async def _wait(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            SEEN.append(("background ended", None))

    async def _shutdown_extensions(self) -> None:
        SEEN.append(("shutdown", all(pool.alive for pool in self.pools)))
        await super()._shutdown_extensions()
        SEEN.append(("shut down", self.stream_count))

    def _on_stage_submitted(self, stage_id: int, request: Any, replica_id: int, unit: Any) -> None:
        super()._on_stage_submitted(stage_id, request, replica_id, unit)
        SEEN.append(("submitted", (stage_id, replica_id, request.session_owned)))

    def _intercept_stage_output(
        self, stage_id: int, output: Any, request: Any, metrics: Any
    ) -> bool:
        consumed = super()._intercept_stage_output(stage_id, output, request, metrics)
        SEEN.append(("intercept", (stage_id, metrics is not None, consumed)))
        return consumed

    def _deliver_output(self, output: Any, request: Any, is_last: bool) -> None:
        SEEN.append(("deliver", (request.session_owned, is_last, output.text)))
        super()._deliver_output(output, request, is_last)

    def _handle_forward_failure(self, request: Any, next_stage: int, error: Exception) -> bool:
        handled = super()._handle_forward_failure(request, next_stage, error)
        SEEN.append(("forward failure", (next_stage, handled)))
        return handled

    async def _cleanup_request_ids(
        self, request_ids: Iterable[str], *, abort: bool = False, release_owners: bool = False
    ) -> None:
        ids = tuple(request_ids)
        SEEN.append(("release" if release_owners else "cleanup", (len(ids), abort)))
        await super()._cleanup_request_ids(ids, abort=abort, release_owners=release_owners)


class WatchedTurns(Watched, Orchestrator):
    """The turn-based one, watched."""


class WatchedSessions(Watched, DuplexOrchestrator):
    """The one with sessions, watched."""


class Writer(StageModel[list[str]]):
    """Says the words it is asked, one per output; "forever" it never ends."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> list[str]:
        return []

    def step_unit(self, unit: StageUnit[list[str]], now: float) -> Iterable[StageOutput]:
        if unit.prompt.kind != "tick":
            content = unit.prompt.messages[-1]["content"]
            unit.state[:] = (content if isinstance(content, str) else content[0]["text"]).split()
        words = unit.state
        word = words[0] if words[0] == "forever" else words.pop(0)
        yield unit.output(text=word, end_of_turn=not words, again_ms=1.0 if words else None)


class Repeater(StageModel[None]):
    """Says again what it gets."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> None:
        return None

    def step_unit(self, unit: StageUnit[None], now: float) -> Iterable[StageOutput]:
        yield unit.output(text=unit.prompt.text, end_of_turn=unit.prompt.final)


def choosy(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    if output.text == "unspeakable":
        raise ValueError("no input from this")
    return pass_on(output, context)


TEXT = {"output_modalities": ["text"]}
PIPELINE = PipelineConfig(
    stages=tuple(
        StageConfig(id=kind.__name__, model=f"{__name__}:{kind.__name__}", quick=True)
        for kind in (Writer, Repeater)
    ),
    turn_requests=True,
    stage_input=choosy,
)


class BothWays(DuplexModelPlugin):
    """The stages for sessions too."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.turn_based(supports_text_only_turn=True)

    def pipeline(self) -> PipelineConfig:
        return PIPELINE


class LocalSpec(PluginSpec):
    """Its descriptor."""

    def load(self) -> type[DuplexModelPlugin]:
        return BothWays


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    SEEN.clear()
    monkeypatch.setattr(async_omni_engine, "Orchestrator", WatchedTurns)
    monkeypatch.setattr(duplex_omni_engine, "DuplexOrchestrator", WatchedSessions)


@asynccontextmanager
async def turns() -> AsyncIterator[AsyncOmni]:
    async with AsyncOmni(pipeline=PIPELINE, options=EngineOptions()) as omni:
        yield omni


@asynccontextmanager
async def sessions() -> AsyncIterator[DuplexOmni]:
    spec = LocalSpec(name="both", api="1.0", factory=f"{__name__}:BothWays", max_sessions=4)
    async with Harness().engine(spec) as omni:
        yield omni


async def ask(omni: AsyncOmni, text: str) -> str:
    async with asyncio.timeout(PATIENCE_S), aclosing(omni.generate(text)) as answer:
        return "".join([piece.text async for piece in answer])


async def say(handle: DuplexSessionHandle, text: str) -> list[str]:
    """One turn in a session; the types of what came, up to its end or that of the session."""
    part = {"type": "input_text", "text": text}
    handle.create_item({"type": "message", "role": "user", "content": [part]})
    handle.create_response()
    seen = []
    async with asyncio.timeout(PATIENCE_S):
        async for event in handle.events():
            seen.append(event.type)
            if event.type == "rate_limits.updated":
                break
    return seen


def calls(seam: str) -> list[Any]:
    return [detail for name, detail in SEEN if name == seam]


async def until(seam: str, count: int = 1) -> None:
    await eventually(lambda: len(calls(seam)) >= count)


async def test_turn_messages_are_dispatched_in_order() -> None:
    async with turns() as omni:
        await ask(omni, "one")
        async with aclosing(omni.generate("forever")) as answer:
            await anext(answer)
        await until("dispatch", 3)
    assert calls("dispatch") == [
        ("AddRequest", True),
        ("AddRequest", True),
        ("AbortRequest", True),
    ]


async def test_message_of_nobody_is_refused_by_both(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        async with turns() as omni:
            omni._turn_engine.send("a stray")
            await until("dispatch")
        async with sessions() as omni:
            omni.engine.send("a stray")
            await until("dispatch", 2)
    assert calls("dispatch") == [("str", False)] * 2
    assert caplog.text.count("nobody takes a str") == 2


async def test_messages_of_sessions_go_to_them_and_others_fall_through() -> None:
    async with sessions() as omni, await omni.open_session(TEXT) as handle:
        await say(handle, "one")
        assert await ask(omni, "two") == "two"
        kinds = [kind for kind, taken in calls("dispatch") if taken]
    assert kinds[0] == "OpenSessionMessage"
    assert kinds.count("CommandMessage") >= 2
    assert kinds.count("AddRequest") == 1
    assert omni.sessions == {}


@pytest.mark.parametrize("stack", [turns, sessions])
async def test_background_tasks_begin_once_and_end_before_the_extensions(stack: Any) -> None:
    async with stack():
        await asyncio.sleep(0)
    life = [name for name, _ in SEEN if name in ("background", "background ended", "shutdown")]
    assert life == ["background", "background ended", "shutdown"]


async def test_extensions_end_while_the_stages_still_work() -> None:
    async with sessions() as omni:
        handle = await omni.open_session(TEXT)
        await say(handle, "one")
        assert omni.health().slots_used == 1
    assert calls("shutdown") == [True]
    # What a session had in the stages was closed there, by the manager's shutdown.
    assert calls("shut down") == [0]


async def test_every_unit_taken_is_told_with_those_forwarded() -> None:
    async with turns() as omni:
        await ask(omni, "one two three")
    assert calls("submitted") == [(0, 0, False), *[(1, 0, False)] * 3]


async def test_units_of_a_session_are_told_as_owned() -> None:
    async with sessions() as omni, await omni.open_session(TEXT) as handle:
        await say(handle, "one two")
        await ask(omni, "three")
    taken = calls("submitted")
    assert [each for each in taken if each[2]] == [(0, 0, True), *[(1, 0, True)] * 2]
    assert [each for each in taken if not each[2]] == [(0, 0, False), (1, 0, False)]


async def test_outputs_are_seen_with_their_figures_before_they_are_forwarded() -> None:
    async with turns() as omni:
        await ask(omni, "one two")
    seen = [(name, detail[0]) for name, detail in SEEN if name in ("intercept", "submitted")]
    assert seen.index(("intercept", 0)) < seen.index(("submitted", 1))
    assert calls("intercept") == [
        (0, False, False),
        (1, False, False),
        (0, True, False),
        (1, True, False),
    ]


async def test_sessions_keep_what_comes_from_the_last_stage() -> None:
    async with sessions() as omni, await omni.open_session(TEXT) as handle:
        await say(handle, "one")
        assert calls("intercept") == [(0, True, False), (1, True, True)]
        SEEN.clear()
        await ask(omni, "two")
        assert calls("intercept") == [(0, True, False), (1, True, False)]


async def test_what_a_session_says_never_reaches_a_queue_of_requests() -> None:
    """106: neither while requests are under way nor when none is."""
    async with sessions() as omni, await omni.open_session(TEXT) as handle:
        await say(handle, "alone")
        async with aclosing(omni.generate("forever")) as answer:
            await anext(answer)
            await say(handle, "beside one")
            heard = {(await anext(answer)).text for _ in range(3)}
        assert await ask(omni, "two words") == "twowords"
    assert heard == {"forever"}
    delivered = calls("deliver")
    assert {owned for owned, _, _ in delivered} == {False}
    assert {text for _, _, text in delivered} == {"forever", "two", "words"}


@pytest.mark.parametrize("whose", ["unknown", "closed"])
async def test_an_output_of_no_living_session_goes_nowhere(whose: str) -> None:
    """109: it is swallowed; the next stage never hears of it, and the loop goes on."""
    async with sessions() as omni, await omni.open_session(TEXT) as neighbour:
        gone = await omni.open_session(TEXT)
        await say(gone, "one")
        orchestrator: Any = omni.engine._orchestrator
        (request,) = [
            each
            for each in orchestrator._requests.values()
            if each.stream_id == gone.session_id and each.submitted
        ]
        await gone.close()
        session_id = gone.session_id if whose == "closed" else "duplex-unknown"
        stray = StageOutput(session_id, request.request_id, 0, 0, text="stray")
        SEEN.clear()
        loop = omni.engine._loop
        assert loop is not None
        loop.call_soon_threadsafe(orchestrator.on_outputs, 0, 0, [stray])
        loop.call_soon_threadsafe(orchestrator.on_outputs, 1, 0, [stray])
        assert "response.done" in await say(neighbour, "still here")
        assert [each for each in calls("submitted") if each[0] == 1] == [(1, 0, True)] * 2
        assert calls("deliver") == []
        assert len(calls("intercept")) == 4


async def test_a_request_that_outlived_its_session_forwards_nothing() -> None:
    """109: also where the stages still know the stream, as while its cleanup is owed."""
    async with sessions() as omni:
        handle = await omni.open_session(TEXT)
        await say(handle, "one")
        orchestrator: Any = omni.engine._orchestrator
        (request,) = [each for each in orchestrator._requests.values() if each.submitted]
        stray = StageOutput(handle.session_id, request.request_id, 0, 0, text="stray")
        manager = orchestrator.manager
        runner = manager._runners.pop(handle.session_id)
        SEEN.clear()
        loop = omni.engine._loop
        assert loop is not None
        loop.call_soon_threadsafe(orchestrator.on_outputs, 0, 0, [stray])
        await until("intercept")
        assert calls("intercept") == [(0, False, True)]
        assert calls("submitted") == []
        manager._runners[handle.session_id] = runner


async def test_request_without_a_session_fails_by_the_error_of_its_input() -> None:
    async with turns() as omni:
        with pytest.raises(RequestFailedError, match="no input from this"):
            await ask(omni, "unspeakable")
        assert calls("forward failure") == [(1, False)]
        assert await ask(omni, "still here") == "stillhere"


async def test_session_whose_input_fails_is_closed_and_the_loop_lives() -> None:
    async with sessions() as omni:
        handle, other = await omni.open_session(TEXT), await omni.open_session(TEXT)
        seen = await say(handle, "unspeakable")
        assert calls("forward failure") == [(1, True)]
        if "session.closed" not in seen:
            async with asyncio.timeout(PATIENCE_S):
                seen += [event.type async for event in handle.events()]
        assert handle.close_reason == "runtime_failed"
        assert "response.done" in await say(other, "still here")
        with pytest.raises(RequestFailedError):
            await ask(omni, "unspeakable")
        assert calls("forward failure") == [(1, True), (1, False)]
        assert not other.closed


async def test_end_of_a_request_cleans_up_once() -> None:
    async with turns() as omni:
        await ask(omni, "one")
        assert calls("cleanup") == [(1, False)]
        with pytest.raises(RequestFailedError):
            await ask(omni, "unspeakable")
        assert calls("cleanup") == [(1, False), (1, False)]


async def test_abort_cleans_up_once_and_stops_the_work() -> None:
    async with turns() as omni:
        async with aclosing(omni.generate("forever")) as answer:
            await anext(answer)
        await until("cleanup")
    assert calls("cleanup") == [(1, True)]


async def test_end_of_a_session_cleans_up_its_requests() -> None:
    async with sessions() as omni:
        async with await omni.open_session(TEXT) as handle:
            await say(handle, "one")
        orchestrator = omni.engine._orchestrator
        assert orchestrator is not None
        assert calls("cleanup")
        assert (orchestrator.request_count, orchestrator.stream_count) == (0, 0)


async def test_a_session_whose_output_cannot_be_routed_ends_with_its_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Owners are released: a session that lost an output does not go on without it."""
    async with sessions() as omni:
        handle, other = await omni.open_session(TEXT), await omni.open_session(TEXT)
        stage_output = DuplexSessionRunner.stage_output

        def broken(runner: DuplexSessionRunner, item: Any, size: int) -> None:
            if runner.session.session_id == handle.session_id:
                raise RuntimeError("no place for this")
            stage_output(runner, item, size)

        monkeypatch.setattr(DuplexSessionRunner, "stage_output", broken)
        seen = await say(handle, "one two")
        if "session.closed" not in seen:
            async with asyncio.timeout(PATIENCE_S):
                seen += [event.type async for event in handle.events()]
        assert handle.close_reason == "runtime_failed"
        assert set(calls("release")) == {(1, True)}
        assert "response.done" in await say(other, "still here")
        with pytest.raises(RequestFailedError):
            await ask(omni, "unspeakable")
        assert not other.closed
        await eventually(lambda: omni.health().slots_used == 1)
    assert omni.sessions == {}
