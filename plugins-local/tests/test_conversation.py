"""The three stages together: speech in, speech out."""

from __future__ import annotations

from typing import Any

import numpy as np
from duplex_plugin_local.moonshine import Moonshine
from duplex_plugin_local.numerals import comparable
from duplex_sdk.audio import PcmChunk, resample


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
