"""The three stages together: speech in, speech out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from duplex_plugin_local.moonshine import Moonshine
from duplex_plugin_local.numerals import comparable
from duplex_plugin_local.recogniser import Heard, Recogniser
from duplex_plugin_local.voice import SpokenSentence, Voice
from duplex_sdk.audio import PcmChunk, resample
from duplex_sdk.stage import StagePrompt


def test_a_spoken_question_is_answered_by_voice(
    make_bench: Any, moonshine: Moonshine, spoken: Any
) -> None:
    bench = make_bench(moonshine)
    bench.hear(np.concatenate((spoken("What is seventeen plus twenty five?"), np.zeros(3200))))
    bench.commit()
    assert comparable(bench.finals[0]) == comparable("What is 17 plus 25?")
    assert bench.text == "17 plus 25 is 42."
    assert bench.turns_ended == 1
    assert bench.idle == {0, 1, 2}
    answer = resample(PcmChunk.of(bench.audio(), 24_000), 16_000).numpy()
    assert comparable(moonshine.transcribe(answer)) == comparable("17 plus 25 is 42.")


def test_a_cancel_leaves_the_rest_unspoken(make_bench: Any, scripted: Any) -> None:
    bench = make_bench(scripted)
    bench.ask("Tell me a story.")
    whole = bench.text
    assert whole.count(".") == 5

    bench = make_bench(scripted)
    bench.submit_question("Tell me a story.")
    while not bench.spoken:
        bench.step_next()
    bench.cancel()
    said = bench.text
    bench.run(10)
    assert bench.text == said
    assert whole.startswith(said)
    assert said.count(".") == 1
    bench.ask("What time is it?")
    assert bench.text == said + "It is 3:05 PM."


class NotingVoice(Voice):
    """Speaks with another voice and notes what."""

    def __init__(self, voice: Voice) -> None:
        self.voice = voice
        self.said: list[str] = []

    def speak(self, sentence: str, speed: float = 1.0) -> SpokenSentence:
        self.said.append(sentence)
        return self.voice.speak(sentence, speed)


class SumRecogniser(Recogniser):
    """Hears a sum, and another one once the speaker has gone on."""

    def recognise(self, samples: np.ndarray, draft: Sequence[int] = ()) -> Heard:
        return Heard("Two plus two." if len(samples) < 24_000 else "Two plus two plus three.")


def pause_after(ms: int) -> np.ndarray:
    noise = np.random.default_rng(1).normal(0, 0.1, 16 * ms)
    return np.concatenate((noise, np.zeros(16 * 350))).astype(np.float32)


def test_the_answer_is_rehearsed_in_the_pause(make_bench: Any, voice: Voice) -> None:
    noting = NotingVoice(voice)
    bench = make_bench(SumRecogniser(), speaker=noting)
    bench.hear(pause_after(800))
    assert noting.said == ["2 plus 2 is 4."]
    assert bench.spoken == []
    bench.commit()
    assert noting.said == ["2 plus 2 is 4."]
    assert bench.text == "2 plus 2 is 4."


def test_a_rehearsed_answer_is_forgotten_when_speech_goes_on(make_bench: Any, voice: Voice) -> None:
    noting = NotingVoice(voice)
    bench = make_bench(SumRecogniser(), speaker=noting)
    bench.hear(np.concatenate((pause_after(800), pause_after(800))))
    bench.commit()
    assert bench.text == "2 plus 2 plus 3 is 7."
    assert noting.said == ["2 plus 2 is 4.", "2 plus 2 plus 3 is 7."]


def test_a_rehearsal_sets_no_timer(make_bench: Any, voice: Voice) -> None:
    class Timer(Recogniser):
        def recognise(self, samples: np.ndarray, draft: Sequence[int] = ()) -> Heard:
            return Heard("Set a timer for ten seconds.")

    bench = make_bench(Timer())
    bench.hear(pause_after(800))
    bench.submit(StagePrompt(kind="discard"))
    bench.run(20)
    assert bench.text == ""
    bench.ask("What is two plus two?")
    assert bench.text == "2 plus 2 is 4."
    assert bench.turns_ended == 1


def test_a_session_of_text_alone_rehearses_no_speech(make_bench: Any, voice: Voice) -> None:
    noting = NotingVoice(voice)
    config = {"output_modalities": ["text"]}
    bench = make_bench(SumRecogniser(), speaker=noting, config=config)
    bench.hear(pause_after(800))
    assert noting.said == []


def test_a_timer_rings_in_the_open_response(make_bench: Any, scripted: Any) -> None:
    bench = make_bench(scripted)
    bench.ask("Set a timer for ten seconds.")
    assert bench.text == "Timer set for 10 seconds."
    assert bench.turns_ended == 0
    assert 1 not in bench.idle
    bench.run(9.9)
    assert bench.turns_ended == 0
    bench.run(0.2)
    assert bench.text == "Timer set for 10 seconds. Your timer for 10 seconds is over."
    assert bench.turns_ended == 1
    assert bench.idle == {0, 1, 2}
