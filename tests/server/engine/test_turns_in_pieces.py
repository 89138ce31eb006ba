"""Requests without a session whose spoken turn comes in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing

import pytest
from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import (
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageModel,
    StageOutput,
    StagePrompt,
    StageSession,
    StageUnit,
)
from duplex_server.engine.errors import RequestFailedError
from duplex_server.engine.omni_engine_base import EngineOptions
from duplex_server.entrypoints import AnswerPiece, AsyncOmni, Question
from patience import PATIENCE_S, eventually

OPEN: set[str] = set()


class Steno(StageModel[list[int]]):
    """Writes down how many samples each piece had, and says so when the turn is over."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> list[int]:
        OPEN.add(session.session_id)
        return []

    def close(self, state: list[int]) -> None:
        OPEN.clear()

    def step_unit(self, unit: StageUnit[list[int]], now: float) -> Iterable[StageOutput]:
        if unit.prompt.audio is not None:
            unit.state.append(unit.prompt.audio.count)
        if unit.prompt.final:
            return [unit.output(text=" ".join(map(str, unit.state)), end_of_turn=True)]
        return []


PIPELINE = PipelineConfig(
    (StageConfig("steno", f"{__name__}:Steno", quick=True),),
    turn_requests=True,
    spoken_requests=True,
)


@pytest.fixture
async def omni() -> AsyncIterator[AsyncOmni]:
    OPEN.clear()
    options = EngineOptions(max_waiting_bytes=100_000)
    async with AsyncOmni(pipeline=PIPELINE, options=options) as running:
        yield running


def sound(samples: int) -> PcmChunk:
    return PcmChunk.silence(samples, 16_000)


async def counting(*samples: int, pause_s: float = 0.0) -> AsyncIterator[PcmChunk]:
    for count in samples:
        await asyncio.sleep(pause_s)
        yield sound(count)


async def ask(omni: AsyncOmni, first: int, rest: AsyncIterator[PcmChunk]) -> str:
    question = Question(audio=sound(first), goes_on=True)
    async with asyncio.timeout(PATIENCE_S), aclosing(omni.generate(question, rest)) as answer:
        pieces: list[AnswerPiece] = [piece async for piece in answer]
    return "".join(piece.text for piece in pieces)


async def nobody_is_left(omni: AsyncOmni) -> None:
    await eventually(lambda: not (omni.health().turn_requests or OPEN))


async def test_the_pieces_are_one_turn_in_order(omni: AsyncOmni) -> None:
    counts = range(1, 60)
    assert await ask(omni, 0, counting(*counts)) == " ".join(map(str, (0, *counts)))
    await nobody_is_left(omni)


async def test_a_speaker_who_pauses_has_not_ended_the_turn(omni: AsyncOmni) -> None:
    # In every pause the stages are idle, which ends the turn of a request that is whole.
    assert await ask(omni, 1, counting(2, 3, pause_s=0.05)) == "1 2 3"


async def test_a_source_that_fails_ends_the_request_with_its_error(omni: AsyncOmni) -> None:
    async def failing() -> AsyncIterator[PcmChunk]:
        yield sound(2)
        raise OSError("the line went dead")

    with pytest.raises(OSError, match="went dead"):
        await ask(omni, 1, failing())
    await nobody_is_left(omni)


async def test_a_reader_that_leaves_ends_the_source(omni: AsyncOmni) -> None:
    ended = asyncio.Event()

    async def endless() -> AsyncIterator[PcmChunk]:
        try:
            while True:
                yield sound(1)
                await asyncio.sleep(0.001)
        finally:
            ended.set()

    asking = asyncio.create_task(ask(omni, 1, endless()))
    await eventually(lambda: bool(OPEN))
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    async with asyncio.timeout(PATIENCE_S):
        await ended.wait()
    await nobody_is_left(omni)


async def test_more_than_may_wait_is_refused(omni: AsyncOmni) -> None:
    with pytest.raises(RequestFailedError, match="does not keep up") as failure:
        await ask(omni, 20_000, counting(20_000, 20_000, 20_000))
    assert failure.value.code == "resource_exhausted"
    await nobody_is_left(omni)


async def test_what_comes_after_the_end_is_an_error_or_nothing(omni: AsyncOmni) -> None:
    engine = omni._turn_engine
    engine.update_request("nobody", StagePrompt(final=True))

    async def too_much() -> AsyncIterator[PcmChunk]:
        while not OPEN:  # noqa: ASYNC110 - another thread's doing
            await asyncio.sleep(0.005)
        (request_id,) = OPEN
        engine.update_request(request_id, StagePrompt(audio=sound(2), final=True))
        yield sound(3)

    (said,) = await asyncio.gather(ask(omni, 1, too_much()), return_exceptions=True)
    if isinstance(said, RequestFailedError):
        assert said.code == "invalid_argument"
    else:
        # The turn had been answered before more of it came.
        assert said == "1 2"
    await nobody_is_left(omni)


async def test_a_turn_that_goes_on_needs_its_rest(omni: AsyncOmni) -> None:
    with pytest.raises(ValueError, match="needs its rest"):
        await anext(omni.generate(Question(audio=sound(1), goes_on=True)))
