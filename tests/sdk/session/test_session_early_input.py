"""A plugin that hears units before their commit: what is submitted, kept, taken back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy
import pytest
from duplex_sdk.plugin import DuplexCapabilities
from duplex_sdk.protocol.duplex import (
    AppendAudio,
    BargeIn,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    Commit,
    CreateResponse,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.stage import StagePrompt
from duplex_sdk.testing.numbered_sound import numbers_of, sound
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab
from duplex_sdk.testing.simulation import SCRIPTED_KINDS


class Early(Scripted):
    """The scripted model, with its ears open all the time."""

    early_input = True


class SpeechOnly(Early):
    """One that answers nothing but speech."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        known = super().capabilities(max_sessions=max_sessions)
        return replace(known, supports_text_only_turn=False)


@pytest.fixture
def lab() -> SessionLab:
    return SessionLab(Early({"script": {"turns": "commit", "unit_ms": 80}}))


def prompts(lab: SessionLab, since: int = 0) -> list[StagePrompt]:
    return [submission.prompt for submission in lab.submitted[since:]]


def heard_ms(some: list[StagePrompt]) -> list[float]:
    return [0.0 if p.audio is None else p.audio.duration_ms for p in some]


def kinds(some: list[StagePrompt]) -> list[tuple[str, bool, bool]]:
    return [(p.kind, p.final, p.respond) for p in some]


def codes(lab: SessionLab) -> list[str]:
    return [e.to_realtime()["error"]["code"] for e in lab.events if e.type == "error"]


def statuses(lab: SessionLab) -> list[str]:
    return [e.to_realtime()["response"]["status"] for e in lab.events if e.type == "response.done"]


def hang(_: Any) -> None:
    return None


def test_units_go_as_they_fill_and_the_commit_sends_the_rest_as_final(lab: SessionLab) -> None:
    lab.speak(200)
    assert heard_ms(prompts(lab)) == [80, 80]
    assert not any(p.final for p in prompts(lab))
    lab.send(Commit(response_create=True))
    last = prompts(lab)[-1]
    assert (last.final, last.respond) == (True, True)
    assert heard_ms(prompts(lab)) == [80, 80, 80]
    assert last.padding == 40 * 16


def test_a_commit_on_a_whole_unit_sends_an_empty_final_prompt(lab: SessionLab) -> None:
    lab.speak(160)
    lab.send(Commit(response_create=True))
    assert heard_ms(prompts(lab)) == [80, 80, 0]
    assert prompts(lab)[-1].final
    lab.run(2600)
    assert statuses(lab) == ["completed"]


def test_heard_units_stay_counted_until_their_commit_is_accepted(lab: SessionLab) -> None:
    lab.speak(200)
    assert lab.session.input_bytes == 200 * 16 * 4
    lab.send(Commit(response_create=True))
    assert lab.session.input_bytes == 0


def test_a_new_epoch_hears_the_open_turn_again_before_anything_newer(lab: SessionLab) -> None:
    lab.speak(200)
    before = prompts(lab)
    lab.send(CreateResponse())
    lab.run(300)
    count = len(lab.submitted)
    lab.send(CancelResponse())
    lab.speak(100)
    again = lab.submitted[count:]
    assert [s.prompt.audio for s in again[:2]] == [p.audio for p in before]
    assert heard_ms(prompts(lab, count)) == [80, 80, 80]
    assert {s.context.fence.epoch for s in again} == {1}
    assert lab.session.input_bytes == 300 * 16 * 4
    lab.send(Commit(response_create=True))
    assert lab.session.input_bytes == 0


def test_clear_takes_back_what_was_heard(lab: SessionLab) -> None:
    lab.speak(200)
    lab.send(ClearInput())
    assert kinds(prompts(lab))[-1] == ("discard", False, False)
    assert lab.session.input_bytes == 0
    lab.speak(100)
    lab.send(Commit(response_create=True))
    lab.run(2600)
    assert statuses(lab) == ["completed"]


def test_clear_of_nothing_heard_discards_nothing(lab: SessionLab) -> None:
    lab.speak(40)
    lab.send(ClearInput())
    assert prompts(lab) == []
    assert lab.session.input_bytes == 0


def test_a_commit_without_an_answer_is_heard_and_a_create_answers_the_conversation(
    lab: SessionLab,
) -> None:
    lab.speak(200)
    lab.send(Commit())
    assert kinds(prompts(lab))[-1] == ("audio", True, False)
    assert statuses(lab) == []
    lab.send(CreateResponse())
    assert prompts(lab)[-1].kind == "conversation"
    lab.run(2600)
    assert statuses(lab) == ["completed"]


def test_what_was_heard_and_answered_is_not_answered_twice() -> None:
    lab = SessionLab(SpeechOnly({"script": {"turns": "commit"}}))
    lab.speak(200)
    lab.send(Commit())
    lab.speak(200)
    lab.send(Commit(response_create=True))
    lab.run(2600)
    lab.send(CreateResponse())
    assert statuses(lab) == ["completed"]
    assert codes(lab) == ["response_create_without_input"]


def test_where_nothing_can_bring_an_answer_on_none_is_begun() -> None:
    """A model of turns is fed no silence: its next unit comes with the next words of the user."""
    lab = SessionLab(SpeechOnly({"script": {"turns": "commit"}}), {"auto_response": True})
    lab.send(CreateResponse())
    lab.run(2600)
    assert codes(lab) == ["response_create_without_input"]
    assert lab.session.state.response is None


def test_a_commit_not_yet_heard_is_heard_in_the_next_epoch(lab: SessionLab) -> None:
    lab.speak(200)
    lab.faults[effects.SubmitUnit] = hang
    lab.send(Commit())
    del lab.faults[effects.SubmitUnit]
    count = len(lab.submitted)
    lab.send(BargeIn())
    again = lab.submitted[count:]
    assert heard_ms(prompts(lab, count)) == [80, 80, 80]
    assert [s.prompt.final for s in again] == [False, False, True]
    assert {s.context.fence.epoch for s in again} == {1}
    assert lab.session.input_bytes == 0


def test_a_failed_unit_refuses_the_commit_and_the_next_turn_is_answered(lab: SessionLab) -> None:
    lab.faults[effects.SubmitUnit] = lambda effect: inputs.UnitSubmitted(
        effect.op, inputs.Fault("runtime_append_failed", "no")
    )
    lab.speak(200)
    assert codes(lab) == ["runtime_append_failed"]
    del lab.faults[effects.SubmitUnit]
    lab.send(Commit(response_create=True, event_id="c"))
    assert codes(lab) == ["runtime_append_failed", "commit_aborted"]
    assert lab.session.input_bytes == 0
    lab.speak(200)
    lab.send(Commit(response_create=True))
    lab.run(2600)
    assert statuses(lab) == ["completed"]
    assert heard_ms(prompts(lab)) == [80, 80, 80]


def test_a_failed_end_of_turn_fails_its_response_and_takes_back_what_was_heard(
    lab: SessionLab,
) -> None:
    lab.speak(200)
    refused = []

    def refuse_finals(effect: effects.SubmitUnit) -> Any:
        if effect.submission.prompt.final:
            refused.append(effect)
            return inputs.UnitSubmitted(effect.op, inputs.Fault("runtime_append_failed", "no"))
        return lab._submit(effect.op, effect.submission)

    lab.faults[effects.SubmitUnit] = refuse_finals
    lab.send(Commit(response_create=True))
    assert codes(lab) == ["runtime_append_failed"]
    assert statuses(lab) == ["failed"]
    assert prompts(lab)[-1].kind == "discard"
    assert lab.session.input_bytes == 0
    lab.faults.clear()
    lab.speak(200)
    lab.send(Commit(response_create=True))
    lab.run(2600)
    assert statuses(lab) == ["failed", "completed"]


def test_a_plan_that_raises_every_time_never_holds_a_byte_for_good(lab: SessionLab) -> None:
    lab.faults[effects.PlanAppend] = lambda effect: inputs.AppendPlanned(
        effect.op, fault=inputs.Fault("runtime_append_failed", "no")
    )
    for _ in range(3):
        lab.speak(300)
        lab.send(Commit(response_create=True))
    assert lab.session.input_bytes == 0
    assert codes(lab) == ["runtime_append_failed", "commit_aborted"] * 3


def test_a_flushed_rest_survives_a_new_epoch(lab: SessionLab) -> None:
    lab.speak(100)
    lab.faults[effects.SubmitUnit] = hang
    lab.send(Commit(final=False))
    del lab.faults[effects.SubmitUnit]
    count = len(lab.submitted)
    lab.send(CreateResponse())
    lab.send(CancelResponse())
    lab.run(50)
    assert heard_ms(prompts(lab, count)) == [80, 80]
    assert lab.session.input_bytes == 100 * 16 * 4


@pytest.mark.parametrize("stop", [ClearOutputAudio(), None])
def test_a_turn_kept_behind_an_answer_is_heard_before_what_interrupts_the_answer(
    stop: ClearOutputAudio | None,
) -> None:
    kind = SCRIPTED_KINDS["sustained early"]
    lab = SessionLab(kind.plugin(), kind.session)
    rate, said = lab.capabilities.input_sample_rate_hz, 0

    def speak(ms: int) -> None:
        nonlocal said
        audio, said = sound(said, ms, rate, loud=True)
        lab.send(AppendAudio(audio=audio))

    speak(320)
    lab.send(Commit(response_create=True))
    lab.run(250)
    speak(500)
    lab.send(Commit(response_create=True))
    since = len(lab.submitted)
    assert lab.session.state.turn_input.answer_deferred
    if stop is None:
        speak(700)
    else:
        lab.send(stop)
        speak(160)
    assert statuses(lab) == ["cancelled"]
    lab.send(Commit(response_create=True))
    lab.run(3000)
    heard = [p.audio.data for p in prompts(lab, since) if p.audio is not None]
    order = numpy.concatenate([numbers_of(data) for data in heard])
    told = order[order < said]  # Without zeros that a commit added.
    assert (numpy.diff(told) > 0).all(), "something said later is heard before it"
    assert len(told) >= (500 + (700 if stop is None else 160)) * rate // 1000 // 4 - 4
    assert statuses(lab) == ["cancelled", "completed"]
