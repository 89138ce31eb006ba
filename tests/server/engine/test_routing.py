"""Three stages in a row: what goes from one to the next, and what a failure in between ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import numpy
import pytest
from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexModelPlugin,
    DuplexOutputDecision,
    OutputContext,
    PluginSpec,
)
from duplex_sdk.protocol.duplex import AudioDelta, DuplexEvent, TextDelta, TranscriptDelta
from duplex_sdk.stage import (
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageInputContext,
    StageLoadError,
    StageModel,
    StageOutput,
    StagePrompt,
    StageSession,
    StageUnit,
    pass_on,
)
from duplex_server.entrypoints import DuplexOmni, DuplexSessionHandle
from duplex_server.testing import Harness
from patience import PATIENCE_S

CALLS: list[tuple[str, str, Any]] = []
"""(stage, call, detail), of the test under way; stages run in this process."""

WORDS = ("one", "two", "three", "four", "five", "six")


class Recording(StageModel[str]):
    """Notes every call under the name of its stage."""

    name = ""

    def load(self, context: LoadContext) -> StageInfo:
        self.options = context.options
        return StageInfo()

    def open(self, session: StageSession) -> str:
        CALLS.append((self.name, "open", session.config.get("instructions")))
        return session.session_id

    def update(self, state: str, session: StageSession) -> None:
        CALLS.append((self.name, "update", session.config.get("instructions")))

    def cancel(self, state: str, epoch: int, heard_ms: float) -> None:
        CALLS.append((self.name, "cancel", epoch))

    def close(self, state: str) -> None:
        CALLS.append((self.name, "close", state))


class Writer(Recording):
    """Writes six words, one per step, going on by ticks."""

    name = "writer"

    def open(self, session: StageSession) -> str:
        self.written: dict[str, int] = getattr(self, "written", {})
        return super().open(session)

    def step_unit(self, unit: StageUnit[str], now: float) -> Iterable[StageOutput]:
        done = self.written.get(unit.session_id, 0) if unit.prompt.kind == "tick" else 0
        self.written[unit.session_id] = done + 1
        last = done + 1 == len(WORDS)
        yield unit.output(text=WORDS[done] + " ", end_of_turn=last, again_ms=None if last else 0.0)


class Shaper(Recording):
    """Hands text on, and may fail."""

    name = "shaper"

    def step_unit(self, unit: StageUnit[str], now: float) -> Iterable[StageOutput]:
        text = unit.prompt.text or ""
        CALLS.append((self.name, "step", text))
        yield unit.output(text=text.upper(), end_of_turn=unit.prompt.final)


class Speaker(Recording):
    """Ten milliseconds for each word."""

    name = "speaker"

    def step_unit(self, unit: StageUnit[str], now: float) -> Iterable[StageOutput]:
        CALLS.append((self.name, "step", unit.prompt.text))
        audio = PcmChunk.of(numpy.full(240, 0.1, dtype=numpy.float32), 24_000)
        yield unit.output(audio=audio, text=unit.prompt.text, end_of_turn=unit.prompt.final)


def choosy(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    if context.config.get("instructions") == "break":
        raise ValueError("no input from this")
    return pass_on(output, context)


class ThreeStages(DuplexModelPlugin):
    """Writes, shapes, speaks."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.turn_based(supports_text_only_turn=True, supports_barge_in=True)

    def pipeline(self) -> PipelineConfig:
        stages = (Writer, Shaper, Speaker)
        return PipelineConfig(
            stages=tuple(
                StageConfig(id=stage.name, model=f"{__name__}:{stage.__name__}", quick=True)
                for stage in stages
            ),
            stage_input=choosy,
        )


class Answering(ThreeStages):
    """The writer's words are the answer already."""

    def decide_output(
        self, output: StageOutput, context: OutputContext
    ) -> DuplexOutputDecision | None:
        return DuplexOutputDecision() if context.stage_id == 0 else None


class Undecided(ThreeStages):
    """Cannot decide."""

    def decide_output(
        self, output: StageOutput, context: OutputContext
    ) -> DuplexOutputDecision | None:
        raise ValueError("undecided")


class Unfit(ThreeStages):
    """Decides in a way nobody knows."""

    def decide_output(self, output: StageOutput, context: OutputContext) -> Any:
        return {"action": "shrug"}


class Broken(Writer):
    """Cannot be loaded."""

    name = "broken"

    def load(self, context: LoadContext) -> StageInfo:
        raise StageLoadError("no weights", hint="fetch them")


class Unloadable(ThreeStages):
    """Its only stage cannot be loaded."""

    def pipeline(self) -> PipelineConfig:
        return PipelineConfig(
            stages=(StageConfig(id="broken", model=f"{__name__}:Broken", quick=True),)
        )


class LocalSpec(PluginSpec):
    """The descriptor of a class of this module."""

    def load(self) -> type[DuplexModelPlugin]:
        kind: type[DuplexModelPlugin] = globals()[self.factory.partition(":")[2]]
        return kind


Start = Callable[[type[DuplexModelPlugin]], AbstractAsyncContextManager[DuplexOmni]]


@pytest.fixture
def start() -> Start:
    CALLS.clear()

    @asynccontextmanager
    async def running(kind: type[DuplexModelPlugin]) -> AsyncIterator[DuplexOmni]:
        spec = LocalSpec(
            name="three", api="1.0", factory=f"{__name__}:{kind.__name__}", max_sessions=8
        )
        async with Harness().engine(spec) as omni:
            yield omni

    return running


async def ask(handle: DuplexSessionHandle, text: str = "hello") -> list[DuplexEvent]:
    """One turn of text: everything up to the end of its answer, or of the session."""
    part = {"type": "input_text", "text": text}
    handle.create_item({"type": "message", "role": "user", "content": [part]})
    handle.create_response()
    seen: list[DuplexEvent] = []
    async with asyncio.timeout(PATIENCE_S):
        async for event in handle.events():
            seen.append(event)
            if event.type in ("rate_limits.updated", "session.closed"):
                return seen
    return seen


def of_stage(name: str, call: str) -> list[Any]:
    return [detail for stage, what, detail in CALLS if (stage, what) == (name, call)]


def spoken(events: list[DuplexEvent]) -> str:
    return "".join(
        event.delta for event in events if isinstance(event, TranscriptDelta | TextDelta)
    )


async def test_outputs_go_from_stage_to_stage_in_order(start: Start) -> None:
    async with start(ThreeStages) as omni, await omni.open_session() as handle:
        seen = await ask(handle)
    assert spoken(seen) == "ONE TWO THREE FOUR FIVE SIX "
    assert sum(isinstance(event, AudioDelta) for event in seen) == 6
    assert of_stage("shaper", "step") == [f"{word} " for word in WORDS]
    assert next(e for e in seen if e.type == "response.done").response.status == "completed"


async def test_every_stage_opens_once_and_closes_once(start: Start) -> None:
    async with start(ThreeStages) as omni:
        async with await omni.open_session() as handle:
            await ask(handle)
            await ask(handle, "again")
        for stage in ("writer", "shaper", "speaker"):
            assert len(of_stage(stage, "open")) == 1
            assert of_stage(stage, "close") == [handle.session_id]


async def test_stages_open_with_the_first_unit_and_the_config_then_in_force(start: Start) -> None:
    async with start(ThreeStages) as omni, await omni.open_session() as handle:
        assert CALLS == []
        handle.update({"instructions": "first"})
        await ask(handle)
        for stage in ("writer", "shaper", "speaker"):
            assert of_stage(stage, "open") == ["first"]
        handle.update({"instructions": "second"})
        await ask(handle)
        for stage in ("writer", "shaper", "speaker"):
            assert of_stage(stage, "update")[-1] == "second"


async def test_cancel_reaches_every_stage_once(start: Start) -> None:
    async with start(ThreeStages) as omni, await omni.open_session() as handle:
        part = {"type": "input_text", "text": "hello"}
        handle.create_item({"type": "message", "role": "user", "content": [part]})
        handle.create_response()
        handle.cancel_response()
        async with asyncio.timeout(PATIENCE_S):
            async for event in handle.events():
                if event.type == "response.done":
                    assert event.response.status == "cancelled"
                if event.type == "rate_limits.updated":
                    break
        again = await ask(handle)
        assert spoken(again) == "ONE TWO THREE FOUR FIVE SIX "
        for stage in ("writer", "shaper", "speaker"):
            assert of_stage(stage, "cancel") in ([1], [])


async def test_direct_response_goes_no_further(start: Start) -> None:
    async with (
        start(Answering) as omni,
        await omni.open_session({"output_modalities": ["text"]}) as handle,
    ):
        seen = await ask(handle)
    assert spoken(seen) == "one two three four five six "
    assert of_stage("shaper", "step") == []


@pytest.mark.parametrize("kind", [Undecided, Unfit])
async def test_a_decision_that_is_none_forwards(
    start: Start, kind: type[DuplexModelPlugin], caplog: pytest.LogCaptureFixture
) -> None:
    async with start(kind) as omni, await omni.open_session() as handle:
        seen = await ask(handle)
    assert spoken(seen) == "ONE TWO THREE FOUR FIVE SIX "
    complaints = [record for record in caplog.records if "decide_output" in record.getMessage()]
    assert len(complaints) == 1


async def test_input_that_cannot_be_made_ends_that_session_only(start: Start) -> None:
    async with start(ThreeStages) as omni:
        sound = await omni.open_session()
        broken = await omni.open_session({"instructions": "break"})
        seen = await ask(broken)
        async with asyncio.timeout(PATIENCE_S):
            seen += [event async for event in broken.events()]
        kinds = [event.type for event in seen]
        assert kinds.index("error") < kinds.index("response.done")
        assert seen[-1].reason == "runtime_failed"
        assert spoken(await ask(sound)) == "ONE TWO THREE FOUR FIVE SIX "
        await sound.close()
        assert omni.health().slots_used == 0


async def test_nothing_of_a_session_is_left_in_the_engine(start: Start) -> None:
    async with start(ThreeStages) as omni:
        async with await omni.open_session() as handle:
            await ask(handle)
        orchestrator = omni.engine._orchestrator
        assert orchestrator is not None
        assert (orchestrator.request_count, orchestrator.stream_count) == (0, 0)


async def test_sessions_do_not_mix(start: Start) -> None:
    async with start(ThreeStages) as omni:
        handles = [await omni.open_session() for _ in range(6)]
        answers = await asyncio.gather(*(ask(handle) for handle in handles))
        assert {spoken(answer) for answer in answers} == {"ONE TWO THREE FOUR FIVE SIX "}
        assert {event.session_id for answer in answers for event in answer if event.session_id} == {
            handle.session_id for handle in handles
        }
        await omni.close_all_sessions()


async def test_a_model_that_cannot_be_loaded_fails_the_start(start: Start) -> None:
    with pytest.raises(StageLoadError, match="no weights"):
        async with start(Unloadable):
            pytest.fail("it started")
