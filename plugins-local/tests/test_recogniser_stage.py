"""The hearing stage: partials, speculation, commits, cancels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from duplex_plugin_local.recogniser import Heard, Recogniser
from duplex_plugin_local.recogniser_stage import RecogniserStage, Work
from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import StagePrompt, StageSession, StageUnit

RATE = 16_000


def loud(ms: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, RATE * ms // 1000).astype(np.float32)


def quiet(ms: int) -> np.ndarray:
    return np.zeros(RATE * ms // 1000, np.float32)


def test_partials_come_every_half_second_and_only_grow(make_bench: Any, scripted: Any) -> None:
    bench = make_bench(scripted)
    bench.hear(loud(3200))
    assert len(scripted.calls) >= 4
    assert scripted.calls == sorted(scripted.calls)
    assert min(np.diff(scripted.calls)) >= 480
    assert bench.partials
    assert "one two three four five six".startswith("".join(bench.partials))


def test_the_final_transcript_is_the_whole_turn(make_bench: Any, scripted: Any) -> None:
    bench = make_bench(scripted)
    bench.hear(np.concatenate((loud(1000), quiet(80))))
    bench.commit()
    assert bench.finals == ["one two"]
    assert bench.finals[0].startswith("".join(bench.partials))


def test_a_pause_is_recognised_ahead_so_the_commit_costs_nothing(
    make_bench: Any, scripted: Any
) -> None:
    bench = make_bench(scripted)
    bench.hear(np.concatenate((loud(1000), quiet(350))))
    calls = len(scripted.calls)
    assert 1150 <= scripted.calls[-1] <= 1300
    bench.commit()
    assert len(scripted.calls) == calls
    assert bench.finals == ["one two"]


def test_the_guess_is_dropped_when_speech_returns(make_bench: Any, scripted: Any) -> None:
    bench = make_bench(scripted)
    bench.hear(np.concatenate((loud(1000), quiet(250), loud(1280, seed=2), quiet(80))))
    calls = len(scripted.calls)
    bench.commit()
    assert len(scripted.calls) == calls + 1
    assert bench.finals == ["one two three four five"]


@pytest.mark.parametrize("is_speech", [False, None])
def test_silence_is_never_recognised(make_bench: Any, scripted: Any, is_speech: Any) -> None:
    bench = make_bench(scripted)
    noise = np.random.default_rng(3).normal(0, 0.0005, RATE * 2).astype(np.float32)
    bench.hear(noise, is_speech=is_speech)
    bench.commit()
    assert scripted.calls == []
    assert bench.finals == [""]
    assert bench.text == "Sorry, I did not catch that."


def test_a_commit_that_wants_no_answer_gets_the_transcript_alone(
    make_bench: Any, scripted: Any
) -> None:
    bench = make_bench(scripted)
    bench.hear(loud(1040))
    bench.commit(respond=False)
    assert bench.finals == ["one two"]
    assert bench.spoken == []


def test_discarded_input_is_forgotten(make_bench: Any, scripted: Any) -> None:
    bench = make_bench(scripted)
    bench.hear(loud(2000))
    bench.submit(StagePrompt(kind="discard"))
    bench.hear(loud(560))
    bench.commit()
    assert bench.finals == ["one"]


def test_a_cancel_drops_the_unfinished_turn(make_bench: Any, scripted: Any) -> None:
    bench = make_bench(scripted)
    bench.hear(loud(2000))
    bench.cancel()
    bench.hear(loud(560))
    bench.commit()
    assert bench.finals == ["one"]


def test_padding_of_the_last_unit_is_no_input(make_bench: Any, scripted: Any) -> None:
    bench = make_bench(scripted)
    audio = PcmChunk.of(np.concatenate((loud(400), quiet(80))), RATE)
    bench.submit(StagePrompt(audio=audio, padding=RATE * 80 // 1000, is_speech=True, final=True))
    bench.run()
    assert scripted.calls == [400]


def test_long_turns_are_cut_at_a_pause_and_joined(make_bench: Any, scripted: Any) -> None:
    bench = make_bench(scripted)
    bench.hear(np.concatenate((loud(9000), quiet(120), loud(4000, seed=2))))
    bench.commit()
    assert max(scripted.calls) < 12_200
    assert any(8900 < call < 9200 for call in scripted.calls)
    words = bench.finals[0].split()
    assert words[:2] == ["one", "two"]
    assert words.count("one") == 2


def test_a_long_turn_that_comes_in_one_piece_is_cut_all_the_same(
    make_bench: Any, scripted: Any
) -> None:
    bench = make_bench(scripted)
    parts = [loud(9000), quiet(120), loud(15_000, seed=2), quiet(120), loud(15_000, seed=3)]
    audio = PcmChunk.of(np.concatenate(parts), RATE)
    bench.submit(StagePrompt(audio=audio, final=True))
    bench.run()
    assert max(scripted.calls) <= 24_000
    assert sum(scripted.calls) == pytest.approx(audio.duration_ms, abs=1)
    assert len(bench.finals) == 1


def test_a_turn_without_audio_goes_straight_to_the_reply(make_bench: Any, scripted: Any) -> None:
    bench = make_bench(scripted)
    bench.ask("What time is it?")
    assert bench.text == "It is 3:05 PM."
    assert bench.finals == []


class Recorded(Recogniser):
    def __init__(self) -> None:
        self.lengths: list[int] = []

    def recognise(self, samples: np.ndarray, draft: Sequence[int] = ()) -> Heard:
        self.lengths.append(len(samples))
        if len(samples) == 1:
            raise RuntimeError("nothing to see")
        return Heard("word")


def units_of(stage: RecogniserStage, *prompts: StagePrompt) -> list[StageUnit[Any]]:
    return [
        StageUnit(stage.open(StageSession(str(n))), str(n), "r", 0, 1, 0, prompt)
        for n, prompt in enumerate(prompts)
    ]


def unit(samples: np.ndarray, *, final: bool = False) -> StagePrompt:
    from duplex_sdk.audio import PcmChunk

    return StagePrompt(audio=PcmChunk.of(samples, RATE), is_speech=True, final=final)


def ticks_of(units: list[StageUnit[Any]]) -> list[StageUnit[Any]]:
    return [StageUnit(u.state, u.session_id, "r", 0, 1, 0, StagePrompt(kind="tick")) for u in units]


def test_input_is_taken_before_anything_is_recognised() -> None:
    recogniser = Recorded()
    stage = RecogniserStage(recogniser)
    units = units_of(stage, unit(loud(700), final=True), unit(loud(600)))
    outputs = list(stage.step(units, 0.0))
    assert recogniser.lengths == []
    assert [output.again_ms for output in outputs] == [0, 0]


def test_a_flood_of_input_does_not_keep_the_stage_from_recognising() -> None:
    recogniser = Recorded()
    stage = RecogniserStage(recogniser)
    (waiting,) = units_of(stage, unit(loud(700), final=True))
    list(stage.step([waiting], 0.0))
    for _ in range(2):
        list(stage.step([*ticks_of([waiting]), *units_of(stage, unit(loud(80)))], 0.0))
    assert recogniser.lengths == [RATE * 700 // 1000]


def test_one_step_recognises_once_and_the_end_of_a_turn_goes_first() -> None:
    recogniser = Recorded()
    stage = RecogniserStage(recogniser)
    pause = np.concatenate((loud(500), quiet(200)))
    units = units_of(stage, unit(loud(600)), unit(pause), unit(loud(700), final=True))
    list(stage.step(units, 0.0))
    outputs = list(stage.step(ticks_of(units), 0.0))
    assert recogniser.lengths == [RATE * 700 // 1000]
    assert [(o.session_id, o.user_text) for o in outputs if o.user_text] == [("2", "word")]
    # The speculative one comes again at once; the partial waits for its next unit.
    assert [o.session_id for o in outputs if o.again_ms == 0] == ["1"]


def test_a_turn_whose_words_are_known_ends_in_the_step_that_brings_its_end() -> None:
    recogniser = Recorded()
    stage = RecogniserStage(recogniser)
    units = units_of(stage, unit(np.concatenate((loud(500), quiet(200)))))
    list(stage.step(units, 0.0))
    list(stage.step(ticks_of(units), 0.0))
    last = StagePrompt(final=True)
    end = StageUnit(units[0].state, "0", "r", 0, 1, 1, last)
    (output,) = list(stage.step([end], 0.0))
    assert (output.user_text, output.end_of_turn) == ("word", True)
    assert len(recogniser.lengths) == 1


def test_partials_take_a_fifth_of_the_time_at_most() -> None:
    recogniser = Recorded()
    stage = RecogniserStage(recogniser)
    units = units_of(stage, unit(loud(600)), unit(loud(700)))
    list(stage.step(units, 0.0))
    list(stage.step(ticks_of(units[:1]), 10.0))
    assert len(recogniser.lengths) == 1
    # That took 0.1 s, so the next partial has to wait four times as long.
    list(stage.step(ticks_of(units[1:]), 10.1))
    assert len(recogniser.lengths) == 1
    list(stage.step(ticks_of(units[1:]), 10.51))
    assert len(recogniser.lengths) == 2


def test_a_failure_stays_with_its_session() -> None:
    recogniser = Recorded()
    stage = RecogniserStage(recogniser)
    units = units_of(stage, unit(np.ones(1, np.float32), final=True), unit(loud(80)))
    list(stage.step(units, 0.0))
    (failed,) = list(stage.step(ticks_of(units), 0.0))
    assert failed.session_id == "0"
    assert failed.error is not None
    assert failed.error.code == "runtime_append_failed"
    assert units[0].state.work() is not Work.FINAL
