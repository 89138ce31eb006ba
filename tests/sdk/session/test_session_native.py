"""Models that decide by themselves when to speak, unit by unit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from duplex_sdk.plugin import DuplexCapabilities
from duplex_sdk.protocol.duplex import (
    AppendAudio,
    CancelResponse,
    CloseSession,
    Commit,
    CreateResponse,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.stage import StageError, StageOutput
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab, tone

AUTO = {"auto_response": True}


def of(lab: SessionLab, wire_type: str) -> list[dict[str, Any]]:
    return [r for r in (e.to_realtime() for e in lab.events) if r["type"] == wire_type]


def statuses(lab: SessionLab) -> list[str]:
    return [d["response"]["status"] for d in of(lab, "response.done")]


def reasons(lab: SessionLab) -> list[str]:
    return [e["response"]["metadata"]["reason"] for e in of(lab, "response.listen")]


def spoken_ms(lab: SessionLab) -> float:
    return sum(len(e.delta) / 2 / 24 for e in lab.events if hasattr(e, "sample_rate_hz"))


def native(**script: Any) -> dict[str, Any]:
    return {"turns": "native", "unit_ms": 80, "yield_after_ms": None, **script}


def say(at_ms: float, **answer: Any) -> dict[str, Any]:
    return {"ms": at_ms, "say": {"delay_ms": 0, **answer}}


@pytest.fixture
def auto(make_lab: Any) -> Any:
    def make(**script: Any) -> SessionLab:
        lab: SessionLab = make_lab(AUTO, script=native(**script))
        return lab

    return make


def test_it_listens_unit_by_unit_and_speaks_when_it_chooses(auto: Any) -> None:
    lab = auto(at=[say(400, ms=400, text="hi")])
    lab.pause(1600)
    assert set(reasons(lab)) == {"model_listen"}
    assert statuses(lab) == ["completed"]
    types = lab.types()
    speak = types.index("response.speak")
    assert types.count("response.speak") == 1
    assert types[speak - 1] == "response.content_part.added"
    assert types[speak + 1] == "response.output_audio.delta"
    assert spoken_ms(lab) == 400


def test_a_quiet_client_hears_the_whole_answer(auto: Any) -> None:
    lab = auto(at=[say(160, ms=2000)])
    lab.pause(240)
    lab.run(4000)
    assert statuses(lab) == ["completed"]
    assert spoken_ms(lab) == 2000


def test_silence_comes_a_period_after_the_last_unit_and_never_in_a_burst(auto: Any) -> None:
    lab = auto(at=[say(160, ms=2000)])
    times: list[float] = []
    submit = lab._submit

    def watch(effect: effects.SubmitUnit) -> Any:
        times.append(lab.now)
        return submit(effect.op, effect.submission)

    lab.faults[effects.SubmitUnit] = watch
    lab.pause(240)
    real = len(times)
    last = times[-1]
    lab.run(3000)
    silent = times[real:]
    assert silent[0] == pytest.approx(last + 0.280)
    gaps = [after - before for before, after in pairwise(silent)]
    assert all(gap == pytest.approx(0.080) for gap in gaps)


def test_a_client_that_goes_on_speaking_gets_no_silence_put_in(auto: Any) -> None:
    lab = auto(at=[say(160, ms=2000)])
    lab.pause(3000)
    assert len(lab.submitted) == 3000 // 80
    assert spoken_ms(lab) == 2000


def test_a_unit_begun_is_filled_up_before_any_silence(auto: Any) -> None:
    lab = auto(at=[say(160, ms=1000)])
    lab.pause(260)
    lab.run(3000)
    filled = lab.submitted[3].prompt
    assert filled.padding == 60 * 16
    assert lab.session.input_bytes == 0
    assert statuses(lab) == ["completed"]


def test_an_answer_without_end_is_ended_after_its_share_of_silence(auto: Any) -> None:
    lab = auto(at=[say(160, ms=60_000)])
    lab.pause(240)
    lab.run(20_000)
    assert statuses(lab) == ["completed"]
    silent = lab.submitted[3:]
    assert len(silent) == 64
    assert [s.prompt.force_listen for s in silent] == [False] * 63 + [True]


def test_in_turn_mode_the_share_is_eight_units(make_lab: Any) -> None:
    lab = make_lab(script=native(answers=[{"ms": 60_000, "delay_ms": 0}]))
    lab.speak(1600)
    lab.send(Commit(response_create=True))
    lab.run(10_000)
    assert reasons(lab)[-1] == "continuation_limit"
    assert len(lab.submitted) == 1 + 8
    assert not any(s.prompt.force_listen for s in lab.submitted)
    assert statuses(lab) == ["completed"]
    assert of(lab, "response.done")[0]["response"]["metadata"]["duplex"]["committed"] is False


def test_a_cancel_stops_the_silence_too(auto: Any) -> None:
    lab = auto(at=[say(160, ms=60_000)])
    lab.pause(240)
    lab.run(1000)
    lab.send(CancelResponse())
    count = len(lab.submitted)
    lab.run(5000)
    assert statuses(lab) == ["cancelled"]
    assert len(lab.submitted) == count


def test_create_asks_for_what_the_next_unit_brings(auto: Any) -> None:
    lab = auto()
    lab.pause(80)
    lab.send(CreateResponse())
    assert statuses(lab) == []
    lab.run(1000)
    done = of(lab, "response.done")[0]["response"]
    assert done["metadata"]["duplex"]["decision"] == "listen"
    assert of(lab, "response.listen")[-1]["response_id"] == done["id"]


def test_a_short_commit_of_a_client_makes_the_model_listen(make_lab: Any) -> None:
    lab = make_lab(script=native(answers=[{"delay_ms": 0}]))
    lab.speak(300)
    lab.send(Commit(response_create=True))
    assert lab.submitted[0].prompt.force_listen is True
    lab.speak(1600)
    lab.send(Commit(response_create=True))
    assert lab.submitted[-1].prompt.force_listen is False


def test_a_unit_told_to_listen_says_so(auto: Any) -> None:
    lab = auto()
    told = msgspec.structs.replace(AppendAudio(audio=b"").hints, force_listen=True)
    lab.send(AppendAudio(audio=tone(80), hints=told))
    lab.run(10)
    assert reasons(lab) == ["forced_listen"]


class Unstoppable(Scripted):
    """It cannot be stopped, only muted."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return replace(super().capabilities(max_sessions=max_sessions), cancel_effect="mutes")


@pytest.fixture
def muted() -> SessionLab:
    """One whose answer was cancelled, and a unit of the new epoch is with the stage."""
    lab = SessionLab(Unstoppable({"script": native(at=[say(160, ms=4000)])}), AUTO)
    lab.pause(400)
    lab.faults[effects.SubmitUnit] = lambda effect: _kept(lab, effect)
    lab.send(CancelResponse())
    lab.pause(80)
    return lab


def say_on(lab: SessionLab, **fields: Any) -> None:
    """The stage says something in the epoch that is now."""
    context = lab.submitted[-1].context
    output = StageOutput(
        session_id=context.session_id,
        request_id=context.request_id,
        epoch=context.fence.epoch,
        turn_id=context.fence.turn_id,
        **fields,
    )
    lab.feed(inputs.StageOutputReceived(output, 0))


@pytest.mark.parametrize("end", [{"end_of_turn": True}, {"listen": True}])
def test_the_rest_of_a_muted_utterance_makes_no_response(
    muted: SessionLab, end: dict[str, Any]
) -> None:
    say_on(muted, text="rest")
    say_on(muted, text="more", **end)
    assert len(of(muted, "response.created")) == 1
    say_on(muted, text="new")
    assert len(of(muted, "response.created")) == 2
    assert of(muted, "response.output_audio_transcript.delta")[-1]["delta"] == "new"


def test_a_muted_model_that_fails_is_heard_of(muted: SessionLab) -> None:
    say_on(muted, error=StageError("boom", "it broke", "event"))
    assert of(muted, "error")[0]["error"]["code"] == "boom"


def _kept(lab: SessionLab, effect: effects.SubmitUnit) -> inputs.UnitSubmitted:
    lab.submitted.append(effect.submission)
    return inputs.UnitSubmitted(effect.op)


def test_the_seed_a_client_asks_for_reaches_the_model(make_lab: Any) -> None:
    asked, own, broken = (
        make_lab({**AUTO, "extra_body": extra_body}, script=native())
        for extra_body in ({"seed": 41}, {}, {"seed": -1})
    )
    for lab in (asked, own, broken):
        lab.speak(80)
    assert [submission.context.seed for submission in asked.submitted] == [41]
    assert own.submitted[0].context.seed == broken.submitted[0].context.seed != 41


def test_a_muted_model_goes_on_when_it_is_asked_again() -> None:
    lab = SessionLab(Unstoppable({"script": native(at=[say(160, ms=4000)])}), AUTO)
    lab.pause(400)
    lab.send(CancelResponse(), CreateResponse())
    lab.run(5000)
    assert statuses(lab) == ["cancelled", "completed"]


def test_a_session_that_waits_for_its_end_asks_for_no_timer_that_is_over(auto: Any) -> None:
    lab = auto(at=[say(160, ms=60_000)])
    lab.pause(240)
    asked: list[effects.WakeAt] = []
    lab.faults[effects.ReleaseStages] = lambda _: None
    lab.send(CloseSession())
    lab.faults[effects.WakeAt] = asked.append
    lab.run(1000)
    lab.feed(inputs.TimerFired())
    assert asked
    assert all(effect.at is not None and effect.at > lab.now for effect in asked)


def test_an_utterance_right_behind_another_loses_nothing(auto: Any) -> None:
    """The units under way when a turn ends are of that turn, and what they say is of the next."""
    lab = auto(at=[say(80, ms=160, text="one"), say(320, ms=160, text="two")])
    lab.append(tone(1600, level=0.0), piece_ms=1600)
    lab.run(2000)
    assert statuses(lab) == ["completed", "completed"]
    assert spoken_ms(lab) == 320
