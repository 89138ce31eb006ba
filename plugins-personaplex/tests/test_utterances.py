"""Where utterances begin and end."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import ModelResult
from duplex_sdk.stage import StageOutput

from duplex_plugin_personaplex.figures import FRAME_SAMPLES, RATE
from duplex_plugin_personaplex.utterances import (
    BEGIN_DBFS,
    END_DBFS,
    END_FRAMES,
    PersonaPlexSessionState,
    UtteranceDataPlane,
    UtteranceGate,
    level_dbfs,
)

QUIET, LOUD, BETWEEN = END_DBFS - 10, BEGIN_DBFS + 10, (BEGIN_DBFS + END_DBFS) / 2


def frame(level: float) -> PcmChunk:
    return PcmChunk.of(np.full(FRAME_SAMPLES, 10 ** (level / 20), np.float32), RATE)


def run(gate: UtteranceGate, levels: Iterable[float], text: str = "") -> list[ModelResult]:
    return [result for level in levels for result in gate.frame(frame(level), text)]


def is_silence(result: ModelResult) -> bool:
    return result.listen and result.audio is None and not result.text


def test_the_level_of_a_frame_is_its_root_mean_square() -> None:
    assert level_dbfs(frame(-20)) == pytest.approx(-20, abs=0.01)
    assert level_dbfs(PcmChunk.silence(FRAME_SAMPLES, RATE)) == float("-inf")


def test_silence_is_listening_and_its_sound_goes_to_nobody() -> None:
    results = run(UtteranceGate(), [QUIET] * 5)
    assert len(results) == 5
    assert all(map(is_silence, results))


def test_text_begins_an_utterance_even_while_it_is_quiet() -> None:
    (result,) = UtteranceGate().frame(frame(QUIET), " Hello")
    assert result.text == "Hello"
    assert result.audio is not None
    assert not result.listen


def test_one_loud_frame_alone_is_no_utterance() -> None:
    gate = UtteranceGate()
    results = run(gate, [QUIET, LOUD, QUIET, LOUD, QUIET])
    assert all(map(is_silence, results))
    assert not gate.speaking


def test_two_loud_frames_are_one_and_both_are_heard() -> None:
    gate = UtteranceGate()
    held, first, second = run(gate, [LOUD, LOUD])
    assert is_silence(held)
    assert held.buffering
    assert first.audio is not None
    assert second.audio is not None
    assert gate.speaking


def test_between_the_thresholds_nothing_begins_and_nothing_ends() -> None:
    gate = UtteranceGate()
    assert all(map(is_silence, run(gate, [BETWEEN] * 20)))
    run(gate, [LOUD, LOUD])
    assert not any(result.end_of_turn for result in run(gate, [BETWEEN] * 50))


def test_pauses_inside_an_utterance_are_heard() -> None:
    gate = UtteranceGate()
    run(gate, [LOUD, LOUD])
    pause = run(gate, [QUIET] * (END_FRAMES - 1))
    assert all(result.audio is not None and not result.end_of_turn for result in pause)
    assert not any(result.end_of_turn for result in run(gate, [LOUD, *[QUIET] * (END_FRAMES - 1)]))


def test_a_long_enough_silence_ends_it_once() -> None:
    gate = UtteranceGate()
    run(gate, [LOUD, LOUD])
    results = run(gate, [QUIET] * (END_FRAMES + 3))
    assert [result.end_of_turn for result in results].index(True) == END_FRAMES - 1
    assert sum(result.end_of_turn for result in results) == 1
    assert all(map(is_silence, results[END_FRAMES:]))


def test_text_keeps_a_quiet_utterance_going() -> None:
    gate = UtteranceGate()
    gate.frame(frame(QUIET), "a")
    for _ in range(4):
        assert not any(r.end_of_turn for r in run(gate, [QUIET] * (END_FRAMES - 1)))
        assert not any(r.end_of_turn for r in gate.frame(frame(QUIET), "b"))


def test_a_second_utterance_loses_the_space_before_its_first_word() -> None:
    gate = UtteranceGate()
    gate.frame(frame(QUIET), " one")
    (middle,) = gate.frame(frame(QUIET), " two")
    run(gate, [QUIET] * END_FRAMES)
    (first,) = gate.frame(frame(QUIET), " three")
    assert (middle.text, first.text) == (" two", "three")


def test_sessions_share_nothing() -> None:
    plane = UtteranceDataPlane()
    one, other = PersonaPlexSessionState(), PersonaPlexSessionState()
    output = StageOutput("s", "r", 0, 1, audio=frame(QUIET), text=" Hi")
    assert [r.text for r in plane.project(output, state=one, context=None)] == ["Hi"]
    silent = StageOutput("s", "r", 0, 1, audio=frame(QUIET))
    assert all(map(is_silence, plane.project(silent, state=other, context=None)))
