"""The voice and the stage that speaks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from duplex_plugin_local.speech import say
from duplex_plugin_local.speech_stage import SpeechStage, whole_words
from duplex_plugin_local.voice import Voice
from duplex_sdk.protocol.duplex import AudioTextMark, transcript_prefix
from duplex_sdk.stage import StageOutput, StagePrompt, StageSession, StageUnit

RATE = 24_000


@pytest.fixture
def stage(voice: Voice) -> SpeechStage:
    return SpeechStage(voice)


def speak(
    stage: SpeechStage, text: str, *, state: Any = None, final: bool = True
) -> list[StageOutput]:
    state = state or stage.open(StageSession("s"))
    prompt = StagePrompt(kind="stage", text=text, final=final)
    return list(stage.step_unit(StageUnit(state, "s", "r", 0, 1, 0, prompt), 0.0))


LONG = "The weather was so nice that we walked along the river for more than an hour."


def test_pieces_hold_at_most_a_second_and_end_with_words(stage: SpeechStage, voice: Voice) -> None:
    outputs = [output for output in speak(stage, LONG) if output.audio]
    assert all(o.audio is not None and o.audio.duration_ms <= 1000 for o in outputs)
    assert "".join(o.text or "" for o in outputs) == LONG
    whole = np.concatenate([o.audio.numpy() for o in outputs if o.audio])
    assert np.array_equal(whole, voice.speak(LONG).samples)
    assert all(o.text.split()[-1] in LONG.split() for o in outputs if o.text)


def test_an_interrupted_answer_ends_with_a_whole_word() -> None:
    marks = whole_words([(3, 300.0), (11, 900.0)])
    text = "The weather"
    aligned = [AudioTextMark(chars, int(ms)) for chars, ms in marks]
    cut = {transcript_prefix(text, aligned, 900.0, at_ms) for at_ms in range(901)}
    assert cut == {"", "The", "The weather"}


def test_marks_rise_within_each_piece_and_name_every_word(stage: SpeechStage) -> None:
    words = 0
    for output in speak(stage, LONG):
        if output.audio is None or output.text is None:
            continue
        assert output.marks
        characters, times = zip(*output.marks, strict=True)
        assert list(characters) == sorted(characters)
        assert list(times) == sorted(times)
        assert characters[-1] == len(output.text or "")
        assert 0 < times[-1] <= output.audio.duration_ms
        words += len(set(characters) - {0})
    assert words == len(LONG.split())


def test_a_number_longer_than_a_second_is_cut_and_its_text_comes_at_its_end(
    stage: SpeechStage,
) -> None:
    outputs = [o for o in speak(stage, "12345678901234567890") if o.audio]
    assert len(outputs) > 2
    assert outputs[0].text is None
    assert outputs[0].marks == ((0, 0.0),)
    assert "".join(o.text or "" for o in outputs) == "12345678901234567890"


def test_sentences_of_a_turn_are_joined_by_spaces(stage: SpeechStage) -> None:
    state = stage.open(StageSession("s"))
    outputs = speak(stage, "Hello there.", state=state, final=False)
    outputs += speak(stage, "How are you?", state=state)
    outputs += speak(stage, "Fine.", state=state)
    assert "".join(o.text or "" for o in outputs) == "Hello there. How are you?Fine."
    assert [o.end_of_turn for o in outputs].count(True) == 2
    assert outputs[-1].end_of_turn


def test_a_cancelled_turn_leaves_no_space_behind(stage: SpeechStage) -> None:
    state = stage.open(StageSession("s"))
    speak(stage, "Hello there.", state=state, final=False)
    stage.cancel(state, 1, 0.0)
    assert (speak(stage, "Fine.", state=state)[0].text or "").startswith("Fine")


def test_speed_is_the_clients(stage: SpeechStage) -> None:
    config = {"audio": {"output": {"speed": 1.5}}}
    quick = stage.open(StageSession("s", config=config))
    length = {
        speed: sum(o.audio.count for o in speak(stage, LONG, state=state) if o.audio)
        for speed, state in ((1.0, None), (1.5, quick))
    }
    assert length[1.5] < 0.8 * length[1.0]


def test_text_that_cannot_be_pronounced_is_shown_unaligned(stage: SpeechStage) -> None:
    outputs = speak(stage, "***")
    assert [(o.text, o.audio, o.marks) for o in outputs[:-1]] == [("***", None, ())]
    assert outputs[-1].end_of_turn


def test_speech_begins_at_once_and_ends_with_a_short_rest(voice: Voice) -> None:
    samples = voice.speak("Hello there.").samples
    loud = np.flatnonzero(np.abs(samples) > 0.02)
    assert loud[0] < 0.08 * RATE
    assert 0.1 * RATE < len(samples) - loud[-1] < 0.4 * RATE


def test_the_same_text_gives_the_same_samples(voice: Voice) -> None:
    assert np.array_equal(voice.speak("Hello.").samples, voice.speak("Hello.").samples)


def test_say_speaks_without_a_server() -> None:
    samples, rate = say("Hello. How are you?")
    assert rate == RATE
    assert len(samples) > RATE
    assert len(say("   ")[0]) == 0
