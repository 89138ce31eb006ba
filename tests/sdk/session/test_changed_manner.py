"""A session that begins to answer unasked, or no longer does, in the middle of things."""

from __future__ import annotations

import pytest
from duplex_sdk.protocol.duplex import CancelResponse, Commit, UpdateSession
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab


class Early(Scripted):
    """The scripted model, with its ears open all the time."""

    early_input = True


def lab_of(kind: type[Scripted], turns: str, *, auto: bool, ms: int = 400) -> SessionLab:
    answers = [{"ms": ms, "delay_ms": 0, "heard": True}]
    return SessionLab(
        kind({"script": {"turns": turns, "answers": answers}}), {"auto_response": auto}
    )


def turn_to(lab: SessionLab, auto: bool) -> None:
    lab.send(UpdateSession(session={"auto_response": auto}))


def heard(lab: SessionLab) -> list[str]:
    """What each answer says that it heard."""
    rendered = (event.to_realtime() for event in lab.events)
    done = [each for each in rendered if each["type"] == "response.output_audio_transcript.done"]
    return [each["transcript"].partition(",")[0] for each in done]


@pytest.mark.parametrize("auto", [False, True])
@pytest.mark.parametrize(("kind", "turns"), [(Scripted, "commit"), (Early, "commit")])
def test_a_turn_under_way_is_heard_once_and_whole(
    kind: type[Scripted], turns: str, auto: bool
) -> None:
    lab = lab_of(kind, turns, auto=auto)
    lab.speak(410)
    turn_to(lab, not auto)
    lab.speak(410)
    lab.send(Commit(response_create=True))
    lab.run(5000)
    assert heard(lab) == ["heard 820 ms"]
    assert lab.session.input_bytes == 0
    lab.speak(300)
    lab.send(Commit(response_create=True))
    lab.run(5000)
    assert heard(lab) == ["heard 820 ms", "heard 300 ms"]
    assert lab.session.input_bytes == 0


def test_what_was_heard_before_the_change_is_not_heard_again_after_an_interruption() -> None:
    lab = lab_of(Early, "commit", auto=False, ms=3000)
    lab.speak(400)
    turn_to(lab, True)
    lab.speak(400)
    lab.send(Commit(response_create=True))
    lab.run(300)
    taken = len(lab.submitted)
    lab.send(CancelResponse())
    lab.run(1000)
    assert len(lab.submitted) == taken
    assert lab.session.input_bytes == 0


@pytest.mark.parametrize(("auto", "units"), [(True, 64), (False, 8)])
def test_silence_is_put_in_as_often_as_the_session_now_allows(auto: bool, units: int) -> None:
    lab = lab_of(Scripted, "native", auto=not auto, ms=60_000)
    turn_to(lab, auto)
    lab.speak(1600)
    lab.send(Commit(response_create=True))
    sent = len(lab.submitted)
    lab.run(20_000)
    assert len(lab.submitted) - sent == units
    assert "response.done" in lab.types()


@pytest.mark.parametrize("kind", [Scripted, Early])
def test_a_turn_that_waited_for_its_answer_goes_in_units_to_a_model_that_now_streams(
    kind: type[Scripted],
) -> None:
    lab = lab_of(kind, "commit", auto=False, ms=2000)
    lab.speak(300)
    lab.send(Commit(response_create=True))
    lab.run(300)
    lab.speak(900)
    lab.send(Commit(response_create=True))
    lab.run(100)
    turn_to(lab, True)
    taken = len(lab.submitted)
    lab.run(10_000)
    assert heard(lab) == ["heard 300 ms", "heard 900 ms"]
    sounds = [each.prompt.audio for each in lab.submitted[taken:] if each.prompt.audio is not None]
    assert {sound.duration_ms for sound in sounds} == {80.0}
    assert lab.session.input_bytes == 0
