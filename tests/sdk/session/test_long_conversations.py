"""Long answers and long sessions: what a step costs and what a session holds does not grow."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from duplex_sdk.audio import PcmChunk
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AudioDelta,
    AudioTextMark,
    CancelResponse,
    Commit,
    RisingMarks,
    transcript_prefix,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.session.response import MOST_MARKS
from duplex_sdk.stage import StageOutput
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab

UNIT = PcmChunk.silence(1920, 24_000)
DELTAS = 4000
SAY = {"ms": 7_200_000, "text": "word " * 7200, "delay_ms": 0, "audio": "silence"}


class LongAnswer:
    """An answer of 80 ms pieces that does not end, and what each step of it costs."""

    def __init__(self) -> None:
        self.lab = SessionLab(
            Scripted({"script": {"turns": "commit", "answers": [{"delay_ms": 3_600_000}]}})
        )
        self.lab.speak(200)
        self.lab.send(Commit(response_create=True))
        self._context = self.lab.submitted[-1].context
        self.count = 0

    def delta(self) -> inputs.Input:
        self.count += 1
        output = StageOutput(
            session_id=self._context.session_id,
            request_id=self._context.request_id,
            epoch=0,
            turn_id=self._context.fence.turn_id,
            audio=UNIT,
            text=" word",
        )
        return inputs.StageOutputReceived(output, 0)

    def ack(self) -> inputs.Input:
        """The client is half-way."""
        assert self.lab.session.state.response is not None
        response_id = self.lab.session.state.response.id
        return inputs.CommandReceived(
            AckPlayback(played_ms=self.count * 40, response_id=response_id)
        )

    def go_to(self, count: int) -> None:
        while self.count < count:
            self.lab.feed(self.delta())
            self.lab.events.clear()

    def calls(self, item: inputs.Input) -> int:
        """How many functions one step calls, of Python and of C."""
        calls = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            asked = self.lab.session.handle(item, self.lab.now)
        finally:
            sys.setprofile(None)
        self._told(asked)
        return calls

    def peak_bytes(self, item: inputs.Input) -> int:
        """How much memory one step needs at most beyond what there was."""
        tracemalloc.start()
        try:
            asked = self.lab.session.handle(item, self.lab.now)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            self._told(asked)

    def _told(self, asked: tuple[effects.Effect, ...]) -> None:
        for effect in asked:
            assert isinstance(effect, effects.Emit), "a step of an open answer only tells of it"
            self.lab.queue.put(effect.event, self.lab.now)
        self.lab.read_all()
        self.lab.events.clear()


Step = Callable[[LongAnswer], inputs.Input]


@pytest.mark.parametrize("step", [LongAnswer.delta, LongAnswer.ack], ids=["delta", "ack"])
def test_a_step_of_an_answer_calls_no_more_functions_after_four_thousand_deltas(
    step: Step,
) -> None:
    answer = LongAnswer()
    answer.go_to(50)
    early = [answer.calls(step(answer)) for _ in range(5)]
    answer.go_to(DELTAS)
    late = [answer.calls(step(answer)) for _ in range(5)]
    assert max(late) <= max(early)


def test_a_delta_needs_no_more_memory_after_four_thousand_deltas() -> None:
    answer = LongAnswer()
    answer.go_to(50)
    early = max(answer.peak_bytes(answer.delta()) for _ in range(5))
    answer.go_to(DELTAS)
    # The median: now and then a list grows, or pieces of text are joined.
    late = sorted(answer.peak_bytes(answer.delta()) for _ in range(9))[4]
    assert late <= early + 1024


def test_an_acknowledgement_copies_the_text_and_nothing_else() -> None:
    answer = LongAnswer()
    answer.go_to(DELTAS)
    chars = DELTAS * len(" word")
    answer.lab.feed(answer.ack())
    assert answer.peak_bytes(answer.ack()) < 4 * chars + 8192


def test_an_answer_of_an_hour_keeps_few_marks_and_the_newest_ones() -> None:
    every, whole = RisingMarks(), RisingMarks(most=MOST_MARKS)
    for n in range(1, 45_001):
        for marks in (every, whole):
            marks.add(AudioTextMark(n * 5, n * 80))
    assert len(whole) <= MOST_MARKS
    text, audio_ms = "word " * 45_000, 45_000 * 80
    for position in (1000, 600_000, 1_800_000, audio_ms - 30_040, audio_ms - 1):
        exact = transcript_prefix(text, every, audio_ms, position)
        assert transcript_prefix(text, whole, audio_ms, position) == exact


# an hour


def held_bytes(lab: SessionLab) -> int:
    """What the session holds; what the lab wrote down is not the session's."""
    for written in (lab.events, lab.submitted, lab.aborted, lab.lags, lab.log):
        written.clear()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


SPELLS = [2, pytest.param(10, marks=pytest.mark.slow)]
"""Minutes between two looks at the memory: six looks are twelve minutes, or an hour."""


def six_spells(lab: SessionLab, minute: Callable[[], None], minutes: int) -> list[int]:
    """Memory after each of six spells of such minutes."""
    after = []
    tracemalloc.start()
    try:
        for _ in range(6):
            for _ in range(minutes):
                minute()
            after.append(held_bytes(lab))
    finally:
        tracemalloc.stop()
    assert lab.now >= 6 * 60 * minutes
    return after


@pytest.mark.timeout(400)
@pytest.mark.parametrize("minutes", SPELLS)
def test_a_session_whose_model_talks_on_end_holds_what_it_held(minutes: int) -> None:
    script = {
        "turns": "native",
        "unit_ms": 1000,
        "yield_after_ms": None,
        "at": [{"ms": 1000, "say": SAY}],
    }
    lab = SessionLab(Scripted({"script": script}), {"auto_response": True})

    def minute() -> None:
        heard = len(lab.events)
        for _ in range(60):
            lab.append(bytes(32_000), piece_ms=1000)
        assert sum(isinstance(each, AudioDelta) for each in lab.events[heard:]) >= 58

    after = six_spells(lab, minute, minutes)
    # Ten minutes of new words take 3 KB; nothing else may stay.
    assert max(after[2:]) - after[1] < 64 * 1024


@pytest.mark.timeout(400)
@pytest.mark.parametrize("minutes", SPELLS)
def test_a_session_of_many_turns_holds_their_words(minutes: int) -> None:
    script = {
        "turns": "commit",
        "unit_ms": 1000,
        "answers": [{"ms": 3000, "delay_ms": 0, "audio": "silence"}],
    }
    lab = SessionLab(Scripted({"script": script}))
    turns = 0

    def minute() -> None:
        nonlocal turns
        for n in range(6):
            lab.append(bytes(range(256)) * 125, piece_ms=1000)
            lab.send(Commit(response_create=True))
            lab.run(1500 if n % 3 == 2 else 9000)
            if n % 3 == 2:
                lab.send(CancelResponse())
                lab.run(7500)
            turns += 1

    after = six_spells(lab, minute, minutes)
    state = lab.session.state
    assert len(state.playback) <= 64
    assert state.input_bytes.total == 0
    assert lab.queue.pending_bytes == 0
    # An item, a message and its place in the conversation; the audio of none of them.
    growth = (after[-1] - after[1]) / (turns * 4 / 6)
    assert growth < 6 * 1024
