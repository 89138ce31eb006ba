"""Sessions of a vllm stage over an engine that forgets as vLLM does, and dies as it does."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import pytest
from duplex_sdk.stage import (
    Array,
    StageError,
    StageLoadError,
    StageOutput,
    StagePrompt,
    StageSession,
    TokenUsage,
    UnitRequest,
    usage_of,
)
from duplex_sdk.stage.host import HostResult, StepReport
from duplex_sdk.stage.vllm import (
    BackendSettings,
    Delta,
    Embeddings,
    EngineLostError,
    EngineRequest,
    LanguageEngine,
    Segment,
    VllmHost,
)
from hypothesis import given
from hypothesis import strategies as st

STOP = 250
ROLES = {"system": 256, "user": 257, "assistant": 258}
END = 259
Position = int | bytes


def following(history: Sequence[Position]) -> int:
    """What the model says next: it depends on all that went before."""
    return zlib.crc32(repr(history).encode()) % STOP


def continuation(history: Sequence[Position], count: int) -> tuple[int, ...]:
    """What a fresh request over the history is answered."""
    grown = list(history)
    for _ in range(count):
        grown.append(following(grown))
    return tuple(token for token in grown[len(history) :] if isinstance(token, int))


class ForgetfulRequest(EngineRequest):
    def __init__(self, engine: ForgetfulEngine, on_delta: Any, on_lost: Any) -> None:
        self.engine = engine
        self.on_delta = on_delta
        self.on_lost = on_lost
        self.history: list[Position] = []
        self.left = 0
        self.answered = False
        self.segments: list[Segment] = []

    def feed(self, segment: Segment) -> None:
        assert not self.left, "fed while it answers"
        assert segment.pieces, "fed nothing"
        if segment.sampling.get("colour"):
            raise ValueError("no such sampling parameter: colour")
        if self.answered:
            self.history.pop()
        for piece in segment.pieces:
            if isinstance(piece, Embeddings):
                size = len(piece.array.data) // piece.count
                data = piece.array.data
                self.history.extend(data[at * size :][:size] for at in range(piece.count))
            else:
                self.history.extend(piece)
        self.segments.append(segment)
        self.left = segment.max_tokens
        most = self.engine.max_positions
        assert len(self.history) + segment.max_tokens <= most, "too long: the engine is dead"

    def abort(self) -> None:
        if self in self.engine.open:
            self.engine.open.remove(self)

    def step(self) -> None:
        token = following(self.history)
        self.history.append(token)
        self.answered = True
        self.left -= 1
        self.on_delta(Delta((token,), f"<{token}>", None if self.left else "length"))


class ForgetfulEngine(LanguageEngine):
    """Drops the last token of each answer; a context longer than it may be is the end of all."""

    def __init__(self, max_positions: int = 200, slots: int = 8) -> None:
        self.max_positions = max_positions
        self.slots = slots
        self.open: list[ForgetfulRequest] = []
        self.names: list[str] = []

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def render(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        if any(message["role"] not in ROLES for message in messages):
            raise ValueError("the chat template knows no such role")
        said = [[ROLES[m["role"]], *m["content"].encode(), END] for m in messages]
        return [*(token for message in said for token in message), ROLES["assistant"]]

    def request(
        self,
        request_id: str,
        *,
        on_delta: Callable[[Delta], None],
        on_lost: Callable[[Exception], None],
    ) -> EngineRequest:
        self.names.append(request_id)
        request = ForgetfulRequest(self, on_delta, on_lost)
        self.open.append(request)
        return request

    def step(self) -> bool:
        """One token for everybody who is being answered."""
        answering = [request for request in self.open if request.left]
        for request in answering:
            if request in self.open:
                request.step()
        self.on_step()
        return bool(answering)


class Rig:
    """A host with its engine, and short ways to speak to it."""

    def __init__(self, engine: ForgetfulEngine | None = None, **options: Any) -> None:
        self.engine = engine or ForgetfulEngine()
        self.results: list[HostResult] = []
        self.lost: list[EngineLostError] = []
        self.now = 100.0
        self.host = VllmHost(
            self.engine,
            BackendSettings.of(options),
            on_result=self.results.append,
            on_engine_lost=self.lost.append,
            clock=lambda: self.now,
            period_ms=80,
        )
        self._seq = 0

    def open(self, *session_ids: str, max_tokens: int | None = 3, **sampling: Any) -> None:
        sampling = {"max_tokens": max_tokens, **sampling}
        for session_id in session_ids:
            self.host.open(StageSession(session_id, sampling=sampling, seed=5))

    def unit(self, session_id: str, *tokens: int, epoch: int = 0, **prompt: Any) -> int:
        self._seq += 1
        work = StagePrompt(**{"kind": "stage", "token_ids": tokens, **prompt})
        self.host.units(
            [UnitRequest(session_id, f"{session_id}/{epoch}", epoch, 1, self._seq, work)]
        )
        return self._seq

    async def run(self, steps: int = 1000) -> list[StageOutput]:
        """Let the engine answer; what was said meanwhile."""
        before = len(self.results)
        while steps and self.engine.step():
            steps -= 1
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        return [output for result in self.results[before:] for output in result.outputs]

    async def said(self) -> tuple[int, ...]:
        return tuple(token for output in await self.run() for token in output.token_ids)

    def seen(self, field: str) -> list[Any]:
        return [each for result in self.results for each in getattr(result, field)]

    def errors(self) -> list[StageError]:
        return [output.error for output in self.seen("outputs") if output.error]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    rig.open("a")
    yield rig
    rig.host.shutdown()
    assert rig.engine.open == []


class TestStreaming:
    async def test_units_extend_one_request_and_see_all_that_went_before(self, rig: Rig) -> None:
        history: list[Position] = []
        for chunk in ((1, 2), (3,), (4, 5, 6)):
            rig.unit("a", *chunk)
            history += chunk
            answer = await rig.said()
            assert answer == continuation(history, 3)
            history += answer
        assert len(rig.engine.open) == 1

    async def test_each_answer_ends_with_one_segment_end_and_gives_its_credit_back(
        self, rig: Rig
    ) -> None:
        seqs = [rig.unit("a", 1), rig.unit("a", 2)]
        outputs = await rig.run()
        assert [output.segment_end for output in outputs] == [False, False, True] * 2
        assert not any(output.end_of_turn for output in outputs)
        assert [seq for _, _, seq in rig.seen("taken")] == seqs
        assert rig.seen("idle") == ["a"]

    async def test_a_final_unit_ends_the_turn_with_its_answer(self, rig: Rig) -> None:
        rig.unit("a", 1, final=True)
        assert [output.end_of_turn for output in await rig.run()] == [False, False, True]

    async def test_a_turn_tells_at_its_end_what_was_given_and_said(self, rig: Rig) -> None:
        rig.unit("a", 1, 2, final=True, respond=False)
        rig.unit("a", 3, final=True)
        told = [usage_of(output) for output in await rig.run()]
        # What was heard in silence before it cost something too, and had to end in a token.
        assert told == [None, None, TokenUsage(3, 4)]
        rig.unit("a", 4, final=True)
        # The engine forgets a segment's last token, which is given to it once more.
        assert usage_of((await rig.run())[-1]) == TokenUsage(2, 3)

    async def test_a_final_unit_that_wants_no_answer_is_heard_in_silence(self, rig: Rig) -> None:
        rig.unit("a", 1, 2, final=True, respond=False)
        assert await rig.run() == []
        assert rig.seen("idle") == ["a"]
        rig.unit("a", 3)
        assert await rig.said() == continuation([1, 2, 3], 3)

    async def test_text_and_tokens_and_embeddings_are_taken_in_this_order(self) -> None:
        rig = Rig(placeholder_token_id=9)
        rig.open("a")
        sound = Array(bytes([1, 1, 2, 2]), "uint8", (2, 2))
        rig.unit("a", 7, text="hi", arrays={"embeddings": sound})
        history = [7, *b"hi", bytes([1, 1]), bytes([2, 2])]
        assert await rig.said() == continuation(history, 3)

    async def test_sessions_are_answered_side_by_side(self, rig: Rig) -> None:
        rig.open("b")
        rig.unit("a", 1)
        rig.unit("b", 2)
        first = (await rig.run(steps=1))[:2]
        assert {output.session_id for output in first} == {"a", "b"}

    async def test_an_update_holds_from_the_next_unit_on(self, rig: Rig) -> None:
        rig.unit("a", 1)
        rig.host.update(StageSession("a", sampling={"max_tokens": 1}))
        assert len(await rig.said()) == 3
        rig.unit("a", 2)
        assert len(await rig.said()) == 1

    async def test_the_sessions_seed_goes_with_each_segment(self, rig: Rig) -> None:
        rig.unit("a", 1)
        assert rig.engine.open[0].segments[0].seed == 5

    async def test_an_engine_that_keeps_the_last_token_dropped_is_taken_at_its_word(self) -> None:
        rig = Rig(keep_last_token=False)
        rig.open("a")
        rig.unit("a", 1)
        answer = await rig.said()
        rig.unit("a", 2)
        assert await rig.said() == continuation([1, *answer[:-1], 2], 3)

    async def test_a_late_answer_is_counted(self, rig: Rig) -> None:
        rig.unit("a", 1)
        rig.now += 0.1
        await rig.run()
        (report,) = (result.report for result in rig.results if result.report)
        assert report == StepReport(pytest.approx(100.0), 1, 1)


class TestInterruption:
    async def test_what_was_said_stays_and_the_next_unit_brings_all_of_it(self, rig: Rig) -> None:
        rig.unit("a", 1, 2)
        heard = [token for output in await rig.run(steps=2) for token in output.token_ids]
        rig.host.cancel("a", 1, 0.0)
        assert rig.engine.open == []
        rig.unit("a", 3, epoch=1)
        assert await rig.said() == continuation([1, 2, *heard, 3], 3)

    async def test_units_that_wait_are_given_back_and_those_of_old_epochs_too(
        self, rig: Rig
    ) -> None:
        seqs = [rig.unit("a", 1), rig.unit("a", 2)]
        rig.host.cancel("a", 1, 0.0)
        seqs.append(rig.unit("a", 3))
        assert await rig.run() == []
        assert [seq for _, _, seq in rig.seen("taken")] == seqs
        assert rig.seen("idle") == ["a"]

    async def test_nothing_of_an_older_epoch_is_told_after_it(self, rig: Rig) -> None:
        rig.unit("a", 1)
        rig.engine.step()
        rig.host.cancel("a", 1, 0.0)
        assert await rig.run() == []

    async def test_it_counts_once_for_each_epoch(self, rig: Rig) -> None:
        rig.host.cancel("a", 2, 0.0)
        rig.unit("a", 1, epoch=2)
        rig.host.cancel("a", 2, 0.0)
        rig.host.cancel("a", 1, 0.0)
        assert await rig.said() == continuation([1], 3)

    async def test_an_idle_session_keeps_its_request(self, rig: Rig) -> None:
        rig.unit("a", 1)
        await rig.run()
        rig.host.cancel("a", 1, 0.0)
        assert len(rig.engine.open) == 1

    async def test_input_of_a_turn_that_is_not_certain_is_forgotten(self) -> None:
        rig = Rig(early_input=True)
        rig.open("a")
        rig.unit("a", 1, final=True)
        first = await rig.said()
        rig.unit("a", 2)
        await rig.run(steps=1)
        rig.host.cancel("a", 1, 0.0)
        rig.unit("a", 3, epoch=1)
        assert await rig.said() == continuation([1, *first, 3], 3)

    async def test_a_discarded_turn_is_forgotten(self, rig: Rig) -> None:
        rig.unit("a", 1, final=True)
        first = await rig.said()
        rig.unit("a", 2)
        rig.unit("a", kind="discard")
        rig.unit("a", 3)
        said = await rig.said()
        assert said[3:] == continuation([1, *first, 3], 3)
        assert rig.seen("idle")[-1] == "a"


class TestLimit:
    async def test_a_session_that_reaches_it_ends_alone(self) -> None:
        rig = Rig(ForgetfulEngine(max_positions=24))
        rig.open("a", "b")
        for _ in range(6):
            rig.unit("a", 1, 2, 3)
            await rig.run()
        assert rig.seen("failed") == [
            (
                "a",
                StageError(
                    "runtime_failed",
                    "the session reached the model's longest context, 24",
                    "session",
                ),
            )
        ]
        rig.unit("b", 1)
        assert await rig.said() == continuation([1], 3)
        assert [request.history[0] for request in rig.engine.open] == [1]
        rig.host.close("a")
        await rig.run()
        assert rig.seen("closed") == ["a"]

    async def test_a_unit_of_a_failed_session_is_given_back(self) -> None:
        rig = Rig(ForgetfulEngine(max_positions=8))
        rig.open("a")
        rig.unit("a", *range(8))
        seq = rig.unit("a", 1)
        await rig.run()
        assert len(rig.seen("failed")) == 1
        assert rig.seen("taken")[-1] == ("a", 0, seq)
        assert rig.seen("idle") == []

    async def test_a_session_that_rolls_over_keeps_its_beginning_and_its_latest_units(
        self,
    ) -> None:
        rig = Rig(ForgetfulEngine(max_positions=24), at_limit="roll_over")
        rig.open("a")
        spans: list[list[Position]] = []
        for number in range(12):
            rig.unit("a", number, 100 + number)
            outputs = await rig.run()
            dropped = [o.data["rolled_over"] for o in outputs if o.data]
            if dropped:
                assert dropped == [10]
                del spans[1:3]
            history = [position for span in spans for position in span]
            answer = tuple(token for output in outputs for token in output.token_ids)
            assert answer == continuation([*history, number, 100 + number], 3)
            spans.append([number, 100 + number, *answer])
        assert spans[0][:2] == [0, 100]
        assert rig.seen("failed") == []

    async def test_an_answer_of_any_length_is_cut_where_the_context_ends(self) -> None:
        rig = Rig(ForgetfulEngine(max_positions=24))
        rig.open("a", max_tokens=None)
        rig.unit("a", 1, 2)
        assert len(await rig.said()) == 22

    async def test_a_unit_longer_than_any_context_fails_alone(self) -> None:
        rig = Rig(ForgetfulEngine(max_positions=24), at_limit="roll_over")
        rig.open("a")
        rig.unit("a", 1)
        first = await rig.said()
        rig.unit("a", *range(30))
        await rig.run()
        (error,) = rig.errors()
        assert "too long" in error.message
        assert error.scope == "response"
        rig.unit("a", 2)
        assert await rig.said() == continuation([1, *first, 2], 3)

    @given(
        st.lists(
            st.tuples(
                st.sampled_from("ab"),
                st.integers(1, 6),
                st.integers(1, 5),
                st.sampled_from(["answered", "interrupted"]),
            ),
            max_size=40,
        )
    )
    def test_no_session_is_ever_fed_past_it(self, units: list[tuple[str, int, int, str]]) -> None:
        # The engine asserts it: that is the law.
        async def talk() -> None:
            rig = Rig(ForgetfulEngine(max_positions=32), at_limit="roll_over")
            epochs = {"a": 0, "b": 0}
            rig.open("a", "b")
            for session_id, length, answer, end in units:
                rig.host.update(StageSession(session_id, sampling={"max_tokens": answer}))
                rig.unit(session_id, *range(length), epoch=epochs[session_id])
                if end == "answered":
                    await rig.run()
                else:
                    await rig.run(steps=1)
                    epochs[session_id] += 1
                    rig.host.cancel(session_id, epochs[session_id], 0.0)
            assert rig.seen("failed") == []
            assert rig.errors() == []

        asyncio.run(talk())


def message(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


class TestConversation:
    async def test_it_is_rendered_and_answered_as_a_turn(self, rig: Rig) -> None:
        messages = (message("system", "be"), message("user", "hi"))
        rig.unit("a", messages=messages)
        outputs = await rig.run()
        prompt = rig.engine.render(messages)
        assert tuple(t for o in outputs for t in o.token_ids) == continuation(prompt, 3)
        assert outputs[-1].end_of_turn
        assert outputs[0].text == f"<{following(prompt)}>"

    async def test_parts_become_words_and_silence_is_left_out(self, rig: Rig) -> None:
        parts = [{"type": "input_text", "text": "one"}, {"transcript": "two"}]
        rig.unit("a", messages=(message("assistant", ""), message("user", parts)))
        prompt = rig.engine.render([message("user", "one two")])
        assert await rig.said() == continuation(prompt, 3)

    async def test_one_that_goes_on_from_the_context_is_not_computed_again(
        self, rig: Rig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # A template whose text of an answer is what the model said, letter by letter.
        monkeypatch.setattr(
            rig.engine, "render", lambda messages: [t for m in messages for t in m["content"]]
        )
        monkeypatch.setattr("duplex_sdk.stage.vllm.unit_input.plain_messages", list)
        rig.unit("a", messages=(message("user", [1, 2]),))
        answer = await rig.said()
        rig.unit("a", messages=(message("user", [1, 2, *answer, 3]),))
        assert await rig.said() == continuation([1, 2, *answer, 3], 3)
        (request,) = rig.engine.open
        assert request.segments[1].pieces == ((answer[-1], 3),)

    async def test_one_whose_words_differ_begins_anew(self, rig: Rig) -> None:
        rig.unit("a", messages=(message("user", "hi"),))
        await rig.run()
        heard = (message("user", "hi"), message("assistant", "wha"), message("user", "stop"))
        rig.unit("a", messages=heard)
        assert await rig.said() == continuation(rig.engine.render(heard), 3)
        assert len(rig.engine.open) == 1

    async def test_the_oldest_words_of_a_long_one_are_left_out_but_no_instructions(self) -> None:
        rig = Rig(ForgetfulEngine(max_positions=40), at_limit="roll_over")
        rig.open("a")
        messages = [message("system", "be"), *(message("user", f"say {n}") for n in range(9))]
        rig.unit("a", messages=tuple(messages))
        outputs = await rig.run()
        kept = rig.engine.render([messages[0], *messages[-4:]])
        assert tuple(t for o in outputs for t in o.token_ids) == continuation(kept, 3)
        whole = rig.engine.render(messages)
        assert outputs[0].data == {"rolled_over": len(whole) - len(kept)}

    async def test_a_long_one_ends_the_session_where_that_is_the_rule(self) -> None:
        rig = Rig(ForgetfulEngine(max_positions=16))
        rig.open("a")
        rig.unit("a", messages=(message("user", "far too many words"),))
        await rig.run()
        assert [session_id for session_id, _ in rig.seen("failed")] == ["a"]

    @pytest.mark.parametrize(
        ("messages", "says"),
        [
            ((message("user", " "),), "nobody said anything"),
            ((message("narrator", "once"),), "knows no such role"),
        ],
    )
    async def test_one_that_cannot_be_rendered_fails_its_response(
        self, rig: Rig, messages: tuple[Any, ...], says: str
    ) -> None:
        rig.unit("a", messages=messages)
        await rig.run()
        (error,) = rig.errors()
        assert says in error.message


class TestFailures:
    @pytest.mark.parametrize(
        ("prompt", "says"),
        [
            ({}, "takes messages, text, token_ids or the array 'embeddings'"),
            (
                {"arrays": {"embeddings": Array(b"12", "uint8", (1, 2))}},
                "embeddings need the option placeholder_token_id",
            ),
        ],
    )
    async def test_a_unit_with_nothing_for_it_fails_its_response(
        self, rig: Rig, prompt: dict[str, Any], says: str
    ) -> None:
        seq = rig.unit("a", **prompt)
        await rig.run()
        (error,) = rig.errors()
        assert (error.code, error.scope) == ("runtime_append_failed", "response")
        assert says in error.message
        assert rig.seen("taken") == [("a", 0, seq)]
        assert rig.seen("idle") == ["a"]

    async def test_a_matrix_is_needed(self) -> None:
        rig = Rig(placeholder_token_id=9)
        rig.open("a")
        rig.unit("a", arrays={"embeddings": Array(b"12", "uint8", (2,))})
        await rig.run()
        assert "must be an array of rows" in rig.errors()[0].message

    async def test_sampling_that_is_refused_fails_the_unit_and_nothing_else(self, rig: Rig) -> None:
        rig.unit("a", 1)
        first = await rig.said()
        rig.host.update(StageSession("a", sampling={"colour": "red"}))
        rig.unit("a", 2)
        await rig.run()
        assert "colour" in rig.errors()[0].message
        rig.host.update(StageSession("a", sampling={"max_tokens": 2}))
        rig.unit("a", 3)
        assert await rig.said() == continuation([1, *first, 3], 2)
        assert len(rig.engine.names) == 1

    @pytest.mark.parametrize("length", [0, -1, "many", 1.5])
    async def test_an_impossible_length_fails_the_unit(self, rig: Rig, length: Any) -> None:
        rig.host.update(StageSession("a", sampling={"max_tokens": length}))
        rig.unit("a", 1)
        await rig.run()
        assert "max_tokens must be at least 1" in rig.errors()[0].message

    async def test_a_request_lost_in_an_answer_fails_that_unit_and_is_opened_again(
        self, rig: Rig
    ) -> None:
        rig.unit("a", 1)
        first = await rig.said()
        rig.unit("a", 2)
        await rig.run(steps=1)
        rig.engine.open.pop().on_lost(RuntimeError("it was preempted for good"))
        rig.unit("a", 3)
        said = await rig.said()
        assert "preempted" in rig.errors()[0].message
        assert said[-3:] == continuation([1, *first, 3], 3)

    async def test_the_death_of_the_engine_is_told_once(self, rig: Rig) -> None:
        rig.open("b")
        rig.unit("a", 1)
        rig.unit("b", 1)
        for request in tuple(rig.engine.open):
            request.on_lost(EngineLostError("dead"))
            rig.engine.open.remove(request)
        assert len(rig.lost) == 1

    async def test_a_silent_engine_that_owes_something_is_busy(self, rig: Rig) -> None:
        assert rig.host.busy_since is None
        rig.now = 200.0
        rig.unit("a", 1)
        assert rig.host.busy_since == 200.0
        rig.now = 201.0
        await rig.run(steps=1)
        assert rig.host.busy_since == 201.0
        rig.now = 202.0
        # A step that answers nobody is a sign of life as well.
        rig.engine.on_step()
        assert rig.host.busy_since == 202.0
        await rig.run()
        assert rig.host.busy_since is None


class TestLife:
    async def test_an_opened_session_is_told_at_once(self, rig: Rig) -> None:
        await rig.run()
        assert rig.seen("opened") == [("a", 0.0)]

    async def test_closing_frees_the_request_and_is_told_also_of_strangers(self, rig: Rig) -> None:
        rig.unit("a", 1)
        rig.host.close("a")
        rig.host.close("stranger")
        assert rig.engine.open == []
        assert await rig.run() == []
        assert rig.seen("closed") == ["a", "stranger"]
        assert rig.host.session_count == 0

    async def test_a_unit_of_a_stranger_is_given_back(self, rig: Rig) -> None:
        seq = rig.unit("stranger", 1)
        await rig.run()
        assert rig.seen("taken") == [("stranger", 0, seq)]

    async def test_a_new_conversation_under_an_old_name_knows_nothing(self, rig: Rig) -> None:
        rig.unit("a", 1)
        await rig.run()
        rig.host.close("a")
        rig.open("a")
        rig.unit("a", 2)
        assert await rig.said() == continuation([2], 3)


class TestSettings:
    def test_the_defaults_lose_nothing_silently(self) -> None:
        settings = BackendSettings.of({})
        assert settings.at_limit == "end"
        assert settings.keep_last_token

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"at_limt": "end"}, "no option 'at_limt'"),
            ({"at_limit": "wrap"}, "'at_limit' of a vllm stage cannot be 'wrap'"),
            ({"keep_units": -1}, "keep_units"),
            ({"keep_units": True}, "keep_units"),
            ({"keep_last_token": 1}, "keep_last_token"),
            ({"early_input": "yes"}, "early_input"),
            ({"placeholder_token_id": "x"}, "placeholder_token_id"),
            ({"embeddings_as": "image"}, "embeddings_as"),
            ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ],
    )
    def test_an_option_that_cannot_be_is_named(self, options: dict[str, Any], says: str) -> None:
        with pytest.raises(StageLoadError, match=says):
            BackendSettings.of(options)
