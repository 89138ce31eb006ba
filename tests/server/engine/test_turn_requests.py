"""Requests without a session: answered once, ended with everything they had."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Any

import numpy
import pytest
from duplex_sdk.audio import PcmChunk
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
from duplex_server.engine.errors import EngineDeadError, EngineStartError, RequestFailedError
from duplex_server.engine.omni_engine_base import EngineOptions
from duplex_server.engine.turn_requests import MAX_UNREAD_BYTES, AnswerPiece
from duplex_server.entrypoints import AsyncOmni, Omni, Question
from duplex_server.testing import Harness
from patience import PATIENCE_S, eventually

PLACES = 2
"""Conversations that the writer holds at once."""

OPEN: set[tuple[str, str]] = set()
"""(stage, stream) of all state that stages hold; they run in this process."""

CLOSING, LET_GO = threading.Event(), threading.Event()
"""Of the stage that does not let go by itself."""

TOLD: list[tuple[str, StageSession, StagePrompt]] = []
"""What stages were given."""


class Remembering(StageModel[StageSession]):
    """Notes what it holds."""

    name = ""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo(max_sessions=PLACES)

    def open(self, session: StageSession) -> StageSession:
        if session.config.get("instructions") == f"break the {self.name}":
            raise ValueError("no state for this")
        OPEN.add((self.name, session.session_id))
        return session

    def close(self, state: StageSession) -> None:
        OPEN.discard((self.name, state.session_id))


class Writer(Remembering):
    """Does what the last message says, and repeats other words one by one, by ticks."""

    name = "writer"

    def open(self, session: StageSession) -> StageSession:
        self.waiting: dict[str, list[str]] = getattr(self, "waiting", {})
        return super().open(session)

    def step_unit(self, unit: StageUnit[StageSession], now: float) -> Iterable[StageOutput]:
        if unit.prompt.kind != "tick":
            TOLD.append((self.name, unit.state, unit.prompt))
            self.waiting[unit.session_id] = str(unit.prompt.messages[-1]["content"]).split()
        words = self.waiting[unit.session_id]
        match words[0] if words else "":
            case "":
                return []
            case "fail":
                return [unit.failed("runtime_failed", "it cannot be")]
            case "raise":
                raise ZeroDivisionError("no")
            case "grumble":
                return [unit.failed("bad_event", "well", "event"), unit.output(end_of_turn=True)]
            case "forever":
                return [unit.output(text="on ", again_ms=0)]
        word = words.pop(0)
        return [unit.output(text=f"{word} ", end_of_turn=not words, again_ms=0 if words else None)]


class Tenacious(Writer):
    """Keeps its state until it is told to let go."""

    def close(self, state: StageSession) -> None:
        CLOSING.set()
        LET_GO.wait(PATIENCE_S)
        super().close(state)


class Speaker(Remembering):
    """Ten milliseconds for each word; a minute, when it shouts."""

    name = "speaker"

    def step_unit(self, unit: StageUnit[StageSession], now: float) -> Iterable[StageOutput]:
        ms = 1000 if unit.prompt.text == "SHOUT " else 10
        audio = PcmChunk.of(numpy.full(24 * ms, 0.1, dtype=numpy.float32), 24_000)
        yield unit.output(audio=audio, text=unit.prompt.text, end_of_turn=unit.prompt.final)


def choosy(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    if output.text == "unspeakable ":
        raise ValueError("no input from this")
    return pass_on(output, context)


PIPELINE = PipelineConfig(
    stages=tuple(
        StageConfig(
            id=stage.name,
            model=f"{__name__}:{stage.__name__}",
            quick=True,
            sampling={"of": stage.name},
        )
        for stage in (Writer, Speaker)
    ),
    turn_requests=True,
    stage_input=choosy,
)


class BothWays(DuplexModelPlugin):
    """The same stages for sessions."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.turn_based(supports_text_only_turn=True)

    def pipeline(self) -> PipelineConfig:
        return PIPELINE


class LocalSpec(PluginSpec):
    """The descriptor of a class of this module."""

    def load(self) -> type[DuplexModelPlugin]:
        return BothWays


Start = Callable[..., AbstractAsyncContextManager[AsyncOmni]]


@pytest.fixture
def start() -> Start:
    OPEN.clear()
    TOLD.clear()

    @asynccontextmanager
    async def running(**options: Any) -> AsyncIterator[AsyncOmni]:
        async with AsyncOmni(pipeline=PIPELINE, options=EngineOptions(**options)) as omni:
            yield omni

    return running


async def ask(omni: AsyncOmni, question: Question | str) -> list[AnswerPiece]:
    async with asyncio.timeout(PATIENCE_S), aclosing(omni.generate(question)) as answer:
        return [piece async for piece in answer]


def words_of(pieces: list[AnswerPiece]) -> str:
    return "".join(piece.text for piece in pieces)


async def nothing_is_left(omni: AsyncOmni, *, but_sessions: int = 0) -> None:
    await eventually(lambda: not (omni.health().turn_requests or OPEN))
    orchestrator = omni._turn_engine._orchestrator
    assert (orchestrator.request_count, orchestrator.stream_count) == (but_sessions, but_sessions)


async def test_answer_comes_from_the_last_stage_and_leaves_nothing(start: Start) -> None:
    async with start() as omni:
        pieces = await ask(omni, "good morning to you")
        assert words_of(pieces) == "good morning to you "
        assert sum(p.audio.duration_ms for p in pieces if p.audio is not None) == 40
        # At once: the end is told when the places in the stages are free again.
        assert not OPEN
        await nothing_is_left(omni)


async def test_stages_get_one_final_conversation(start: Start) -> None:
    said = ({"role": "user", "content": "hi"}, {"role": "user", "content": "there"})
    question = Question(said, config={"instructions": "be kind"}, runtime={"a": 1}, seed=7)
    async with start() as omni:
        await ask(omni, question)
    ((_, session, prompt),) = TOLD
    assert (prompt.kind, prompt.final, prompt.respond) == ("conversation", True, True)
    assert [dict(message) for message in prompt.messages] == list(said)
    assert (dict(session.config), dict(session.runtime)) == ({"instructions": "be kind"}, {"a": 1})
    assert (dict(session.sampling), session.seed) == ({"of": "writer"}, 7)


async def test_sampling_of_a_request_replaces_that_of_the_stages(start: Start) -> None:
    parts: tuple[Mapping[str, Any], ...] = ({"temperature": 0.0}, {})
    async with start() as omni:
        await ask(omni, Question("hi", sampling=parts))
        assert dict(TOLD[0][1].sampling) == {"temperature": 0.0}
        with pytest.raises(RequestFailedError, match="one part per stage"):
            await ask(omni, Question("hi", sampling=parts[:1]))


async def test_silence_is_a_whole_answer(start: Start) -> None:
    async with start() as omni:
        assert await ask(omni, " ") == []
        await nothing_is_left(omni)


@pytest.mark.parametrize("word", ["fail", "raise", "unspeakable"])
async def test_failed_request_ends_with_its_error_alone(start: Start, word: str) -> None:
    async with start() as omni:
        with pytest.raises(RequestFailedError) as failed:
            await ask(omni, f"well {word}" if word == "unspeakable" else word)
        assert failed.value.code in ("runtime_failed", "runtime_append_failed")
        assert words_of(await ask(omni, "still here")) == "still here "
        await nothing_is_left(omni)


@pytest.mark.parametrize("stage", ["writer", "speaker"])
async def test_stage_that_cannot_begin_fails_the_request(start: Start, stage: str) -> None:
    async with start() as omni:
        question = Question("hello", config={"instructions": f"break the {stage}"})
        with pytest.raises(RequestFailedError) as failed:
            await ask(omni, question)
        assert failed.value.code == "runtime_failed"
        assert words_of(await ask(omni, "still here")) == "still here "
        await nothing_is_left(omni)


async def test_error_of_an_event_ends_nothing(start: Start) -> None:
    async with start() as omni:
        assert words_of(await ask(omni, "grumble")) == ""


async def test_reader_that_leaves_stops_the_model(start: Start) -> None:
    async with start() as omni:
        async with aclosing(omni.generate("forever")) as answer:
            assert (await anext(answer)).text == "on "
        await nothing_is_left(omni)


async def test_cancelled_reader_stops_the_model(start: Start) -> None:
    async with start() as omni:
        began = asyncio.Event()

        async def read() -> None:
            async for _ in omni.generate("forever"):
                began.set()

        reader = asyncio.create_task(read())
        async with asyncio.timeout(PATIENCE_S):
            await began.wait()
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        await nothing_is_left(omni)


async def test_what_finds_no_place_is_refused_and_harms_nobody(start: Start) -> None:
    async with start() as omni:
        holders = [omni.generate("forever") for _ in range(PLACES)]
        for holder in holders:
            await anext(holder)
        with pytest.raises(RequestFailedError) as refused:
            await ask(omni, "me too")
        assert refused.value.code == "resource_exhausted"
        for holder in holders:
            await holder.aclose()
        await nothing_is_left(omni)
        assert words_of(await ask(omni, "me too")) == "me too "


async def test_deployment_bounds_requests_at_once(start: Start) -> None:
    async with start(max_turn_requests=1) as omni, aclosing(omni.generate("forever")) as holder:
        await anext(holder)
        with pytest.raises(RequestFailedError, match="too many"):
            await ask(omni, "me too")


async def test_unread_answer_is_given_up_before_it_fills_the_memory(start: Start) -> None:
    enough = MAX_UNREAD_BYTES // (4 * 24_000) + 10
    async with start() as omni, aclosing(omni.generate("SHOUT " * enough)) as answer:
        await anext(answer)
        await nothing_is_left(omni)
        with pytest.raises(RequestFailedError, match="not read"):
            async for _ in answer:
                pass


async def test_answer_that_is_read_may_be_longer_than_what_may_wait(start: Start) -> None:
    enough = MAX_UNREAD_BYTES // (4 * 24_000) + 10
    async with start() as omni:
        pieces = await ask(omni, "SHOUT " * enough)
    assert words_of(pieces).count("SHOUT") == enough


async def test_end_is_told_when_the_stages_have_let_go() -> None:
    CLOSING.clear()
    LET_GO.clear()
    stage = StageConfig(id="tenacious", model=f"{__name__}:Tenacious")
    pipeline = PipelineConfig(stages=(stage,), turn_requests=True)
    async with AsyncOmni(pipeline=pipeline, options=EngineOptions()) as omni:
        answer = omni.generate("hello")
        assert (await anext(answer)).text == "hello "
        end = asyncio.ensure_future(anext(answer, None))
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.to_thread(CLOSING.wait)
        assert not end.done()
        LET_GO.set()
        async with asyncio.timeout(PATIENCE_S):
            assert await end is None


async def test_requests_do_not_mix(start: Start) -> None:
    async with start() as omni:
        pair = await asyncio.gather(ask(omni, "a b c"), ask(omni, "d e f g"))
    assert [words_of(pieces) for pieces in pair] == ["a b c ", "d e f g "]


@pytest.mark.parametrize("seed", range(3))
async def test_readers_that_come_and_go_at_random_leave_nothing(start: Start, seed: int) -> None:
    dice = random.Random(seed)
    outcomes: Counter[str] = Counter()

    async def one(patience: int, asked: str) -> None:
        async with aclosing(omni.generate(asked)) as answer:
            try:
                read = [piece async for piece in islice_of(answer, patience)]
            except RequestFailedError as error:
                outcomes[error.code] += 1
                return
        outcomes["left" if asked == "forever" else words_of(read)] += 1

    async with start() as omni:
        tasks = []
        for _ in range(150):
            asked = dice.choice(["forever", "a b c"])
            tasks.append(asyncio.create_task(one(dice.randrange(3, 9), asked)))
            if dice.random() < 0.3:
                dice.choice(tasks).cancel()
            await asyncio.sleep(dice.choice([0, 0, 0.001, 0.003]))
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*tasks, return_exceptions=True)
        assert set(outcomes) == {"left", "a b c ", "resource_exhausted"}
        await nothing_is_left(omni)
        assert words_of(await ask(omni, "still here")) == "still here "


async def islice_of(pieces: AsyncIterator[AnswerPiece], count: int) -> AsyncIterator[AnswerPiece]:
    """At most so many of them; it does not close what it reads from."""
    async for piece in pieces:
        yield piece
        count -= 1
        if not count:
            return


async def test_engine_that_stops_ends_every_answer(start: Start) -> None:
    async with start() as omni:
        answer = omni.generate("forever")
        await anext(answer)
        await omni.stop()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(EngineDeadError):
                async for _ in answer:
                    pass
        with pytest.raises(EngineDeadError):
            await ask(omni, "anybody")
        assert not OPEN


async def test_pipeline_of_sessions_alone_starts_no_turn_engine() -> None:
    omni = AsyncOmni(pipeline=PipelineConfig(stages=PIPELINE.stages), options=EngineOptions())
    with pytest.raises(EngineStartError, match="no requests without a session"):
        await omni.start()
    await omni.stop()


def test_nothing_asked_is_no_question() -> None:
    with pytest.raises(ValueError, match="nothing is asked"):
        Question(())


def test_sync_caller_gets_the_same_answer() -> None:
    OPEN.clear()
    with Omni(pipeline=PIPELINE, options=EngineOptions()) as omni:
        assert words_of(list(omni.generate("good morning"))) == "good morning "
        answer = omni.generate("forever")
        assert next(answer).text == "on "
        answer.close()
        with pytest.raises(RequestFailedError, match="it cannot be"):
            list(omni.generate("fail"))
    assert not OPEN
    with pytest.raises(EngineDeadError):
        list(omni.generate("anybody"))


async def test_engine_of_sessions_answers_requests_beside_them(start: Start) -> None:
    spec = LocalSpec(name="both", api="1.0", factory=f"{__name__}:BothWays", max_sessions=1)
    async with Harness().engine(spec) as omni, await omni.open_session() as handle:
        assert words_of(await ask(omni, "good morning")) == "good morning "
        assert await ask(omni, " ") == []
        async with aclosing(omni.generate("forever")) as holder:
            await anext(holder)
            # The other place is the session's, whether it has begun or not.
            with pytest.raises(RequestFailedError, match="too many"):
                await ask(omni, "me too")
        await nothing_is_left(omni, but_sessions=1)
        with pytest.raises(RequestFailedError, match="it cannot be"):
            await ask(omni, "fail")
        assert not handle.closed
        assert omni.health().slots_used == 1
