"""Many callers on one model: nobody hears of the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import StagePrompt, UnitRequest
from model_runs import Bench, said_by, speech

from duplex_plugin_personaplex.figures import FRAME_SAMPLES, RATE, SPACER_FRAMES
from duplex_plugin_personaplex.testing import write_tiny_checkpoint

VOICES = ("NATF0", "NATF2", "NATM1", "VARM4")


@pytest.fixture(scope="module")
def bench(checkpoint: Path) -> Iterator[Bench]:
    bench = Bench(checkpoint, slots=8)
    yield bench
    bench.host.shutdown()


@pytest.fixture(scope="module")
def alone(checkpoint: Path) -> Iterator[Bench]:
    """The same model with one slot."""
    bench = Bench(checkpoint, slots=1)
    yield bench
    bench.host.shutdown()


def by_itself(alone: Bench, number: int, frames: int) -> list[tuple[int, ...]]:
    alone.open("alone", seed=number, voice=VOICES[number % 4], role=f"You are teacher {number}.")
    said = said_by(alone.talk("alone", speech(frames, seed=number)))
    alone.close("alone")
    return said


def test_a_caller_in_a_full_batch_hears_what_it_hears_alone(bench: Bench, alone: Bench) -> None:
    heard = {f"s{n}": speech(8, seed=n) for n in range(8)}
    for n, name in enumerate(heard):
        bench.open(name, seed=n, voice=VOICES[n % 4], role=f"You are teacher {n}.")
    said: dict[str, list[tuple[int, ...]]] = {name: [] for name in heard}
    for frame in range(8):
        outputs = bench.frames({name: frames[frame] for name, frames in heard.items()})
        for name, output in outputs.items():
            said[name].append(output.token_ids)
    for name in heard:
        bench.close(name)
    for n, name in enumerate(heard):
        assert said[name] == by_itself(alone, n, 8)
    assert len({tuple(tokens) for tokens in said.values()}) == 8


def test_coming_and_going_and_being_late_change_nobody_else(bench: Bench, alone: Bench) -> None:
    """Sampled, with callers that join, leave, and miss steps, in an order drawn once."""
    rng = np.random.default_rng(4)
    lengths = {n: int(rng.integers(3, 9)) for n in range(9)}
    waiting, open_now = list(lengths), dict[int, list[tuple[int, ...]]]()
    finished: dict[int, list[tuple[int, ...]]] = {}
    while waiting or open_now:
        if waiting and len(open_now) < 8 and rng.random() < 0.5:
            n = waiting.pop(0)
            bench.open(f"s{n}", seed=n, voice=VOICES[n % 4], role=f"You are teacher {n}.")
            open_now[n] = []
        on_time = [n for n in open_now if rng.random() < 0.8]
        outputs = bench.frames({f"s{n}": speech(9, seed=n)[len(open_now[n])] for n in on_time})
        for n in on_time:
            open_now[n].append(outputs[f"s{n}"].token_ids)
            if len(open_now[n]) == lengths[n]:
                finished[n] = open_now.pop(n)
                bench.close(f"s{n}")
    for n, said in finished.items():
        assert said == by_itself(alone, n, 9)[: len(said)]


def test_the_sound_of_a_caller_is_its_own_too(bench: Bench, alone: Bench) -> None:
    bench.open("other", seed=1)
    bench.talk("other", speech(3, seed=7))
    bench.open("one", seed=2)
    alone.open("one", seed=2)
    for frame, noise in zip(speech(8, seed=8), speech(8, seed=9), strict=True):
        together = bench.frames({"other": noise, "one": frame})["one"].audio
        by_oneself = alone.frames({"one": frame})["one"].audio
        assert together is not None
        assert by_oneself is not None
        assert together.count == FRAME_SAMPLES
        assert np.allclose(together.numpy(), by_oneself.numpy(), atol=1e-5)
    for name in ("other", "one"):
        bench.close(name)
    alone.close("one")


def test_a_reused_slot_is_as_good_as_new(alone: Bench) -> None:
    heard = speech(10, seed=3)
    alone.open("first", seed=5)
    first = said_by(alone.talk("first", heard))
    alone.close("first")
    alone.open("noise", seed=6, voice="VARF3", role="")
    alone.talk("noise", speech(20, seed=4))
    alone.close("noise")
    alone.open("second", seed=5)
    assert said_by(alone.talk("second", heard)) == first
    alone.close("second")


def test_the_same_seed_says_the_same_and_another_does_not(alone: Bench) -> None:
    said = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        alone.open(name, seed=seed)
        said.append(said_by(alone.talk(name, speech(10, seed=1))))
        alone.close(name)
    assert said[0] == said[1] != said[2]


def test_greedy_does_not_depend_on_the_seed(alone: Bench) -> None:
    said = []
    for seed in (1, 2):
        alone.open("one", seed=seed, sampling={"greedy": True})
        said.append(said_by(alone.talk("one", speech(6, seed=1))))
        alone.close("one")
    assert said[0] == said[1]


def test_one_prompt_holds_others_up_by_a_slice_at_most(bench: Bench) -> None:
    bench.open("talks", seed=1)
    bench.talk("talks", speech(1, seed=1))
    bench.open("joins", seed=2, role="word " * 60)
    steps_meanwhile = 0
    opened = False
    while not opened:
        prompt = StagePrompt(audio=PcmChunk.of(speech(1, seed=steps_meanwhile)[0], RATE))
        bench.host.units([UnitRequest("talks", "talks-0", 0, 1, 900 + steps_meanwhile, prompt)])
        result = bench.host.step()
        assert [output.session_id for output in result.outputs] == ["talks"]
        steps_meanwhile += 1
        opened = any(name == "joins" for name, _ in result.opened)
    assert steps_meanwhile >= 3
    for name in ("talks", "joins"):
        bench.close(name)


def test_a_frame_that_is_no_frame_fails_alone(bench: Bench) -> None:
    bench.open("odd")
    bench.open("even")
    outputs = bench.frames({"odd": np.zeros(100, np.float32), "even": speech(1, seed=1)[0]})
    assert outputs["odd"].error is not None
    assert outputs["even"].error is None
    assert outputs["even"].audio is not None
    for name in ("odd", "even"):
        bench.close(name)


def test_samples_that_are_no_numbers_poison_nothing(alone: Bench) -> None:
    alone.open("one", seed=1)
    broken = speech(1, seed=1)[0]
    broken[5] = np.nan
    broken[6] = np.inf
    alone.frames({"one": broken})
    sound = alone.frames({"one": speech(1, seed=2)[0]})["one"].audio
    assert sound is not None
    assert np.isfinite(sound.numpy()).all()
    alone.close("one")


def test_one_caller_more_than_slots_is_refused_and_the_others_go_on(alone: Bench) -> None:
    alone.open("one")
    alone.open("two")
    assert "two" not in alone.frames({"one": speech(1, seed=1)[0], "two": speech(1, seed=1)[0]})
    assert "slots" in alone.failed.pop("two")
    alone.close("two")
    alone.close("one")


def test_an_unknown_voice_ends_that_session_only(bench: Bench) -> None:
    bench.open("wrong", voice="NOBODY")
    bench.open("right")
    outputs = bench.frames({name: speech(1, seed=1)[0] for name in ("wrong", "right")})
    assert set(outputs) == {"right"}
    assert "NOBODY" in bench.failed.pop("wrong")
    for name in ("wrong", "right"):
        bench.close(name)


def test_progress_is_told_while_loading(bench: Bench) -> None:
    fractions = [fraction for fraction, _ in bench.progress]
    assert fractions == sorted(fractions)
    assert fractions[-1] == pytest.approx(1.0)
    assert len(fractions) > 20
    assert "GB" in bench.progress[0][1]
    assert bench.info.max_sessions == 8
    assert bench.info.memory_bytes > 0


WINDOW = 48


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with so short a window that it is full soon."""
    return write_tiny_checkpoint(tmp_path_factory.mktemp("short"), layers=1, context=WINDOW)


def test_a_full_window_ends_that_session_only(short: Path) -> None:
    bench = Bench(short, slots=2)
    frame = speech(1, seed=1)[0]
    bench.open("early", seed=1, role="")
    # One more than its steps: the first live frame of a prompt comes without one.
    prompt = 12 + 1 + 2 * SPACER_FRAMES
    for _ in range(WINDOW - prompt - 5):
        bench.frames({"early": frame})
    bench.open("late", seed=2, role="")
    said = [bench.frames({"early": frame, "late": frame}) for _ in range(6)]
    assert [outputs["early"].error is None for outputs in said] == [True] * 5 + [False]
    error = said[-1]["early"].error
    assert error is not None
    assert (error.scope, "window" in error.message) == ("session", True)
    assert all(outputs["late"].error is None for outputs in said)
    bench.host.shutdown()


def test_a_caller_who_may_drift_goes_on_when_the_window_is_full(short: Path) -> None:
    bench = Bench(short, slots=1, window_policy="drift")
    bench.open("long", seed=1, role="")
    said = bench.talk("long", speech(1, seed=1).repeat(2 * WINDOW, axis=0))
    sound = [output.audio.numpy() for output in said if output.audio is not None]
    assert len(sound) == 2 * WINDOW
    assert np.isfinite(sound).all()
    # It still listens: what was said is not the same over and over.
    assert len(set(said_by(said[-WINDOW:]))) > WINDOW // 4
    bench.host.shutdown()
