"""Responses outside the conversation."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    CancelResponse,
    CreateItem,
    CreateResponse,
    DuplexEvent,
)
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab

ASIDE = {"conversation": "none", "metadata": {"topic": "title"}}


def opened(turns: str = "commit") -> SessionLab:
    return SessionLab(Scripted({"script": {"turns": turns}}))


def words(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


def done(lab: SessionLab) -> DuplexEvent:
    return next(event for event in lab.events if event.type == "response.done")


def test_it_leaves_no_trace_in_the_conversation() -> None:
    lab = opened()
    lab.send(CreateItem(item=words("remember me")))
    version, items = lab.session.state.history.version, len(lab.session.state.items)
    seen = len(lab.events)
    lab.send(CreateResponse(response={**ASIDE, "input": [words("a title, please")]}))
    lab.run(10_000)
    assert not [each for each in lab.types(seen) if each.startswith("conversation.item")]
    assert lab.session.state.history.version == version
    assert len(lab.session.state.items) == items
    assert lab.session.state.history.unanswered


def test_the_model_reads_its_input_instead_of_the_conversation() -> None:
    lab = opened()
    lab.send(CreateItem(item=words("remember me")))
    lab.send(CreateResponse(response={**ASIDE, "input": [words("a title, please")]}))
    (prompt,) = [each.prompt for each in lab.submitted]
    assert [each["content"][0]["text"] for each in prompt.messages] == ["a title, please"]


def test_without_input_it_answers_the_instructions_alone() -> None:
    lab = opened()
    lab.send(CreateItem(item=words("remember me")))
    lab.send(CreateResponse(response={**ASIDE, "instructions": "say hello"}))
    assert lab.submitted[0].prompt.messages == ()
    assert lab.submitted[0].context.session_config["instructions"] == "say hello"


def test_it_is_whole_and_known_by_its_metadata() -> None:
    lab = opened()
    lab.send(CreateResponse(response=ASIDE))
    lab.run(10_000)
    response = done(lab).to_realtime()["response"]
    assert response["metadata"]["topic"] == "title"
    assert response["status"] == "completed"
    assert response["metadata"]["duplex"]["committed"] is False
    assert response["output"][0]["content"][0]["transcript"]


def test_its_own_input_may_be_answered_inside_the_conversation() -> None:
    lab = opened()
    lab.send(CreateResponse(response={"input": [words("a title, please")]}))
    lab.run(10_000)
    assert "conversation.item.added" in lab.types()
    assert [each["role"] for each in lab.session.state.history.messages()] == ["assistant"]


def test_a_cancel_ends_it_and_remembers_nothing() -> None:
    lab = opened()
    lab.send(CreateResponse(response=ASIDE))
    lab.run(300)
    lab.send(CancelResponse())
    assert done(lab).to_realtime()["response"]["status"] == "cancelled"
    assert not lab.session.state.history.messages()


def test_its_playback_may_be_acknowledged() -> None:
    lab = opened()
    lab.send(CreateResponse(response=ASIDE))
    lab.run(10_000)
    response_id = done(lab).to_realtime()["response_id"]
    lab.send(AckPlayback(played_ms=100, response_id=response_id))
    told = lab.events[-1].to_realtime()
    assert told["type"] == "playback.acknowledged"
    assert told["event"]["history_committed"] is False


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ({"conversation": "other"}, "bad_event"),
        ({"input": "text"}, "bad_event"),
        ({"input": ["text"]}, "bad_event"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "bad_event"),
        ({"input": [{"type": "function_call", "name": "f", "call_id": "c"}]}, "unsupported"),
    ],
)
def test_what_cannot_be_answered_is_refused(response: dict[str, Any], code: str) -> None:
    lab = opened()
    lab.send(CreateResponse(response=response, event_id="c1"))
    error = lab.events[-1].to_realtime()["error"]
    assert (error["code"], error["event_id"]) == (code, "c1")
    assert "response.created" not in lab.types()


@pytest.mark.parametrize("response", [ASIDE, {"input": []}])
def test_a_model_without_the_capability_refuses(response: dict[str, Any]) -> None:
    lab = opened("native")
    lab.send(CreateResponse(response=response))
    error = lab.events[-1].to_realtime()["error"]
    assert error["code"] == "unsupported_native_response_options"
