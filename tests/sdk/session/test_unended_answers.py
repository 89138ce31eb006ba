"""Answers that their stage leaves without an end: idleness ends them, or the time does."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    Commit,
    CreateResponse,
    ResponseCreated,
    ResponseDone,
)
from duplex_sdk.session import inputs
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab

LIMIT_MS = 10_000


class Early(Scripted):
    """The scripted model, with its ears open all the time."""

    early_input = True


def opened(kind: type[Scripted] = Early, **answer: Any) -> SessionLab:
    script = {"turns": "commit", "answers": [{"ms": 400, "delay_ms": 0, **answer}]}
    return SessionLab(kind({"script": script}))


def last(lab: SessionLab, wire_type: str) -> dict[str, Any]:
    return [r for r in (e.to_realtime() for e in lab.events) if r["type"] == wire_type][-1]


def answered(lab: SessionLab) -> str:
    lab.speak(300)
    lab.send(Commit(response_create=True))
    lab.run(60_000)
    status: str = last(lab, "response.done")["response"]["status"]
    return status


def said_out_of_turn(lab: SessionLab) -> None:
    """The stage has heard a unit, is idle, and then speaks all the same."""
    lab.speak(200)
    lab.stage_output(lab.submitted[-1].context, text="left")
    assert lab.types()[-1] == "response.output_audio_transcript.delta"


def test_text_out_of_turn_ends_its_response_within_the_configured_time() -> None:
    lab = opened()
    said_out_of_turn(lab)
    lab.run(LIMIT_MS - 1)
    assert "response.done" not in lab.types()
    lab.run(1)
    details = last(lab, "response.done")["response"]["status_details"]
    assert details["reason"] == "runtime_data_plane_stream_failed"
    assert last(lab, "error")["error"]["code"] == "runtime_data_plane_stream_failed"
    assert answered(lab) == "completed"


def test_each_piece_of_it_starts_the_time_anew() -> None:
    lab = opened()
    said_out_of_turn(lab)
    lab.run(LIMIT_MS - 1000)
    lab.stage_output(lab.submitted[-1].context, text=" and more")
    lab.run(LIMIT_MS - 1)
    assert "response.done" not in lab.types()
    lab.run(1)
    assert "response.done" in lab.types()


def test_news_of_idleness_end_it_as_any_answer() -> None:
    lab = opened()
    said_out_of_turn(lab)
    lab.feed(inputs.StagesIdle(lab.session.epoch, lab.session.accepted_seq))
    assert last(lab, "response.done")["response"]["status"] == "completed"
    seen = len(lab.events)
    lab.run(2 * LIMIT_MS)
    assert lab.types(seen) == []


@pytest.mark.parametrize("kind", [Early, Scripted])
def test_an_answer_that_is_long_in_coming_is_awaited(kind: type[Scripted]) -> None:
    lab = opened(kind, delay_ms=3 * LIMIT_MS)
    assert answered(lab) == "completed"
    assert [each for each in lab.events if isinstance(each, AudioDelta)]


def test_what_is_said_out_of_turn_where_nobody_asks_ends_as_well() -> None:
    script = {"turns": "commit", "answers": [{"ms": 400, "delay_ms": 0}]}
    lab = SessionLab(Scripted({"script": script}), {"auto_response": True})
    assert answered(lab) == "completed"
    begun = lab.types().count("response.created")
    lab.stage_output(lab.submitted[-1].context, text="once more")
    assert lab.types().count("response.created") == begun + 1
    lab.run(LIMIT_MS)
    assert lab.types().count("response.done") == begun + 1
    assert answered(lab) == "completed"


def test_idleness_ends_it_there_too() -> None:
    script = {"turns": "commit", "answers": [{"ms": 400, "delay_ms": 0}]}
    lab = SessionLab(Scripted({"script": script}), {"auto_response": True})
    assert answered(lab) == "completed"
    lab.stage_output(lab.submitted[-1].context, text="once more")
    lab.feed(inputs.StagesIdle(lab.session.epoch, lab.session.accepted_seq))
    assert lab.types().count("response.done") == lab.types().count("response.created")


@pytest.mark.parametrize("kind", [Early, Scripted])
@pytest.mark.parametrize("auto", [False, True])
def test_a_question_answered_with_nothing_ends_as_listened_to(
    kind: type[Scripted], auto: bool
) -> None:
    script = {"turns": "commit", "answers": [None, {"ms": 400}]}
    lab = SessionLab(kind({"script": script}), {"auto_response": auto})
    lab.send(CreateResponse())
    # Sound that goes on meanwhile is no answer.
    lab.speak(300)
    body = last(lab, "response.listen")
    done = last(lab, "response.done")["response"]
    assert body["response_id"] == done["id"]
    assert (done["status"], done["output"]) == ("completed", [])
    assert done["metadata"]["duplex"]["decision"] == "listen"
    assert answered(lab) == "completed"
    created = [event.response_id for event in lab.events if isinstance(event, ResponseCreated)]
    ended = [event.response_id for event in lab.events if isinstance(event, ResponseDone)]
    assert created == ended
    assert len(set(created)) == 2


@pytest.mark.parametrize("auto", [False, True])
def test_a_question_answered_late_is_not_given_up_for_sound_that_goes_on(auto: bool) -> None:
    script = {"turns": "commit", "answers": [{"ms": 400, "delay_ms": 1500}]}
    lab = SessionLab(Scripted({"script": script}), {"auto_response": auto})
    lab.send(CreateResponse())
    lab.pause(3000)
    done = last(lab, "response.done")["response"]
    assert done["metadata"]["duplex"]["decision"] == "speak"
    assert lab.types().count("response.created") == 1
