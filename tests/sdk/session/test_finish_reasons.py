"""Why an answer ended, as its client is told."""

from __future__ import annotations

from typing import Any

from duplex_sdk.protocol.duplex import Commit, CreateResponse
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab

ASIDE = {"conversation": "none"}


def asked(**response: Any) -> SessionLab:
    """A turn under way whose answer is a second away."""
    lab = SessionLab(Scripted({"script": {"turns": "commit", "answers": [{"delay_ms": 1000}]}}))
    if response:
        lab.send(CreateResponse(response=response))
    else:
        lab.speak(200)
        lab.send(Commit(response_create=True))
    return lab


def ended(lab: SessionLab, **output: Any) -> dict[str, Any]:
    lab.stage_output(lab.submitted[-1].context, text="so far", end_of_turn=True, **output)
    response: dict[str, Any] = next(
        r["response"] for r in (e.to_realtime() for e in lab.events) if r["type"] == "response.done"
    )
    return response


def test_an_answer_ends_because_the_model_stopped() -> None:
    response = ended(asked())
    assert response["status"] == "completed"
    assert response["metadata"]["duplex"]["finish_reason"] == "stop"


def test_an_answer_that_reached_its_length_is_incomplete_and_remembered() -> None:
    lab = asked()
    response = ended(lab, data={"finish_reason": "length"})
    assert response["status"] == "incomplete"
    assert response["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"
    assert response["metadata"]["duplex"]["finish_reason"] == "length"
    assert lab.session.state.history.messages()[-1]["content"][0]["text"] == "so far"


def test_the_same_holds_outside_the_conversation() -> None:
    lab = asked(**ASIDE)
    response = ended(lab, data={"finish_reason": "length"})
    assert response["status"] == "incomplete"
    assert not lab.session.state.history.messages()


def test_who_said_nothing_has_no_reason_for_its_end() -> None:
    lab = SessionLab(Scripted({"script": {"turns": "commit", "answers": [None]}}))
    lab.speak(200)
    lab.send(Commit(response_create=True))
    lab.run(1000)
    (done,) = [e.to_realtime() for e in lab.events if e.type == "response.done"]
    assert "finish_reason" not in done["response"]["metadata"]["duplex"]
