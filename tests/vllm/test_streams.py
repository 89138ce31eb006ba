"""Many sessions stream units into one vLLM; none is confused with another, or with itself."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from duplex_sdk.stage import Array
from numpy.typing import NDArray
from stage_talk import LIMIT, SLOTS, Talk

SESSIONS = 16
ATTEMPTS = 5
"""To interrupt an answer before it ends, on a machine that may look away meanwhile."""


async def stream(
    stage: Talk, name: str, units: int, *, period_s: float = 0.0, took: list[float] | None = None
) -> int:
    """Feed a session unit after unit; every answer is what all that went before leads to.

    Args:
        stage: the stage.
        name: of the session; decides what it is fed.
        units: how many.
        period_s: one each so many seconds.
        took: gets the seconds that each unit took.

    Returns:
        How many answers were compared with those of a fresh request.
    """
    dice = random.Random(name)
    session_id = stage.open(name)
    history: list[int] = []
    checked = 0
    loop = asyncio.get_running_loop()
    due = loop.time()
    for number in range(units):
        chunk = [dice.randrange(256) for _ in range(dice.randint(1, 3))]
        if len(history) + len(chunk) + 4 > LIMIT:
            # The same session id goes on with a new conversation.
            await stage.the_pool.close(session_id)
            stage.open(session_id)
            history = []
        asked = loop.time()
        answer = await stage.ask(session_id, *chunk)
        if took is not None:
            took.append(loop.time() - asked)
        assert (answer.segments, answer.turns, answer.errors) == (1, 0, [])
        history += chunk
        if number % 7 == 0 or number + 1 == units:
            assert answer.token_ids == await stage.fresh(history), f"{name}, unit {number}"
            checked += 1
        history += answer.token_ids
        due += period_s
        await asyncio.sleep(max(0.0, due - loop.time()))
    await stage.the_pool.close(session_id)
    return checked


async def test_sixteen_sessions_are_answered_as_a_fresh_request_would_be(stage: Talk) -> None:
    names = (f"stream-{number}" for number in range(SESSIONS))
    checked = await asyncio.gather(*(stream(stage, name, 12) for name in names))
    assert checked == [3] * SESSIONS


@pytest.mark.slow
async def test_sixteen_sessions_stream_for_two_minutes(stage: Talk) -> None:
    units, period_s = 120, 1.0
    names = (f"long-{number}" for number in range(SESSIONS))
    took: list[float] = []
    checked = await asyncio.gather(
        *(stream(stage, name, units, period_s=period_s, took=took) for name in names)
    )
    assert sum(checked) == SESSIONS * 18
    took.sort()
    half, last = took[len(took) // 2], took[-1]
    late = sum(each > period_s for each in took)
    print(
        f"{SESSIONS} sessions, {units} units each, {sum(checked)} compared;"
        f" a unit took {half * 1000:.0f} ms (median), {last * 1000:.0f} ms at most; {late} late"
    )


async def test_what_is_said_as_text_is_what_the_tokens_say(stage: Talk) -> None:
    session_id = stage.open("text", max_tokens=40)
    answer = await stage.ask(session_id, text="say something")
    assert len(answer.token_ids) == 40
    decoded = bytes(answer.token_ids).decode(errors="replace")
    # Bytes that end inside a character are not said yet.
    assert answer.text == decoded[: len(answer.text)]
    assert answer.text


async def test_each_unit_has_a_length_of_its_own(stage: Talk) -> None:
    session_id = stage.open("lengths")
    lengths = []
    for wanted in (4, 9, 1, 2):
        stage.open(session_id, max_tokens=wanted)
        lengths.append(len((await stage.ask(session_id, 1, 2)).token_ids))
    assert lengths == [4, 9, 1, 2]


async def test_sessions_are_as_many_as_the_engine_has_places(stage: Talk) -> None:
    assert stage.the_pool.capacity == SLOTS
    names = [stage.open(f"place-{number}") for number in range(SLOTS)]
    answers = await asyncio.gather(*(stage.ask(name, 5) for name in names))
    assert len({tuple(answer.token_ids) for answer in answers}) == 1
    # All of them are idle now and keep their places; each is still served at once.
    again = await asyncio.gather(*(stage.ask(name, 6) for name in names))
    assert all(len(answer.token_ids) == 4 for answer in again)
    with pytest.raises(Exception, match="holds as many sessions as it can"):
        stage.open("one-too-many")


class TestInterruption:
    async def test_an_answer_stops_and_the_next_unit_brings_the_context(self, stage: Talk) -> None:
        for attempt in range(ATTEMPTS):
            session_id = stage.open(f"interrupted-{attempt}", max_tokens=200)
            said = stage.said[session_id]
            stage.submit(session_id, 10, 20)
            await stage.until(lambda said=said: len(said) >= 3)
            stage.the_pool.cancel(session_id, 1, 0.0)
            heard = [token for output in said for token in output.token_ids]
            if len(heard) < 200:
                break
        assert 3 <= len(heard) < 200
        stage.open(session_id)
        answer = await stage.ask(session_id, 30, epoch=1)
        # What was computed before the word of the cancel came is in the context as well.
        longest = await stage.fresh([10, 20], max_tokens=200)
        assert longest[: len(heard)] == heard
        possible = [
            await stage.fresh([10, 20, *longest[:count], 30])
            for count in range(len(heard), min(len(heard) + 12, 200))
        ]
        assert answer.token_ids in possible
        assert answer.token_ids != await stage.fresh([10, 20, 30])

    async def test_it_frees_what_the_answers_held(self, stage: Talk) -> None:
        await stage.fresh([1])
        before = (await stage.figures())["kv_cache_usage"]
        for attempt in range(ATTEMPTS):
            names = [stage.open(f"big-{attempt}-{number}", max_tokens=100) for number in range(5)]
            for number, name in enumerate(names):
                # None of them begins as another does: they share nothing.
                stage.submit(name, number, *range(150))
            said = [stage.said[name] for name in names]
            await stage.until(lambda said=said: all(len(each) >= 3 for each in said))
            held = (await stage.figures())["kv_cache_usage"]
            ended = [output for each in said for output in each if output.segment_end]
            for name in names:
                stage.the_pool.cancel(name, 1, 0.0)
            if not ended:
                break
        assert not ended
        await stage.fresh([1])
        after = (await stage.figures())["kv_cache_usage"]
        # Told after each step: a request of one token may be in it or gone already.
        assert held > 0
        assert before < held / 4
        assert after < held / 4


class TestLimit:
    async def test_a_session_that_reaches_it_rolls_over_alone(self, stage: Talk) -> None:
        other = stage.open("other")
        told = [1]
        told += (await stage.ask(other, 1)).token_ids
        session_id = stage.open("long", max_tokens=10)
        units: list[list[int]] = []
        times = 0
        for number in range(24):
            chunk = [number, 100 + number, *range(10)]
            answer = await stage.ask(session_id, *chunk)
            if answer.rolled_over:
                times += 1
                # Whole units go, the first of them stays.
                dropped = units[1 : 1 + answer.rolled_over // 22]
                assert sum(map(len, dropped)) == answer.rolled_over
                del units[1 : 1 + len(dropped)]
            history = [token for unit in units for token in unit]
            fresh = await stage.fresh([*history, *chunk], max_tokens=10)
            assert answer.token_ids == fresh, f"unit {number}"
            units.append([*chunk, *answer.token_ids])
        assert times >= 2
        assert session_id not in stage.failed
        answer = await stage.ask(other, 2)
        assert answer.token_ids == await stage.fresh([*told, 2])

    async def test_an_answer_may_fill_the_context_to_its_last_place(self, stage: Talk) -> None:
        session_id = stage.open("brim", max_tokens=None)
        answer = await stage.ask(session_id, *range(200))
        assert len(answer.token_ids) == LIMIT - 200


class TestEmbeddings:
    @staticmethod
    def sound(table: NDArray[np.float32], *tokens: int) -> dict[str, Any]:
        rows = np.ascontiguousarray(table[list(tokens)])
        return {"arrays": {"embeddings": Array(rows.tobytes(), "float32", rows.shape)}}

    async def test_a_unit_of_them_is_heard_as_the_tokens_they_stand_for(
        self, stage: Talk, checkpoint: tuple[Path, NDArray[np.float32]]
    ) -> None:
        table = checkpoint[1]
        session_id = stage.open("ear")
        history: list[int] = []
        for unit in range(6):
            heard = [(17 * unit + step) % 256 for step in range(3)]
            answer = await stage.ask(session_id, 65, **self.sound(table, *heard))
            assert answer.errors == []
            history += [65, *heard]
            assert answer.token_ids == await stage.fresh(history)
            history += answer.token_ids

    async def test_they_are_brought_again_after_an_interruption(
        self, stage: Talk, checkpoint: tuple[Path, NDArray[np.float32]]
    ) -> None:
        table = checkpoint[1]
        session_id = stage.open("ear-again")
        first = await stage.ask(session_id, **self.sound(table, 5, 6, 7))
        stage.open(session_id, max_tokens=200)
        seq = stage.submit(session_id, 9)
        # Before a word of the answer can have been computed.
        stage.the_pool.cancel(session_id, 1, 0.0)
        await stage.until(lambda: (session_id, seq) in stage.taken)
        stage.open(session_id)
        answer = await stage.ask(session_id, 10, epoch=1)
        assert answer.token_ids == await stage.fresh([5, 6, 7, *first.token_ids, 9, 10])

    async def test_numbers_of_a_strange_kind_fail_the_unit(self, stage: Talk) -> None:
        session_id = stage.open("strange")
        array = Array(bytes(128 * 8), "int64", (1, 128))
        answer = await stage.ask(session_id, arrays={"embeddings": array})
        assert "not int64" in answer.errors[0].message
        assert len((await stage.ask(session_id, 1)).token_ids) == 4


class TestRefusals:
    @pytest.mark.parametrize(
        ("sampling", "says"),
        [
            ({"colour": "red"}, "colour"),
            ({"stop": ["x"]}, "stop_token_ids end an answer"),
            ({"n": 2}, "'n'"),
            ({"temperature": -1.0}, "temperature"),
        ],
    )
    async def test_sampling_that_cannot_be_fails_the_unit_and_says_why(
        self, stage: Talk, sampling: dict[str, Any], says: str
    ) -> None:
        session_id = stage.open(f"refused-{says}", **sampling)
        answer = await stage.ask(session_id, 1)
        assert says in answer.errors[0].message

    async def test_tokens_the_model_has_not_fail_the_unit_alone(self, stage: Talk) -> None:
        session_id = stage.open("foreign-tokens")
        answer = await stage.ask(session_id, 99_999)
        assert len(answer.errors) == 1
        assert answer.errors[0].scope == "response"
        assert len((await stage.ask(session_id, 1)).token_ids) == 4

    async def test_a_stage_answers_no_call_it_does_not_know(self, stage: Talk) -> None:
        with pytest.raises(Exception, match="answers no call named 'dance'"):
            await stage.the_pool.call("dance", {}, timeout_s=5.0)
