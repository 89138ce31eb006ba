"""Responses outside the conversation."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AudioDelta,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearOutputAudio,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    DuplexEvent,
    TranscriptDelta,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.session.beside_flow import MOST_BESIDE
from duplex_sdk.stage import StageError
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab

ASIDE = {"conversation": "none", "metadata": {"topic": "title"}}


def opened(turns: str = "commit") -> SessionLab:
    return SessionLab(Scripted({"script": {"turns": turns}}))


def words(text: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


def created(lab: SessionLab) -> list[str]:
    return [e.to_realtime()["response_id"] for e in lab.events if e.type == "response.created"]


def statuses(lab: SessionLab) -> dict[str, str]:
    ends = [e.to_realtime() for e in lab.events if e.type == "response.done"]
    return {end["response_id"]: end["response"]["status"] for end in ends}


def both(lab: SessionLab, *, aside_first: bool = False) -> tuple[str, str]:
    """A response of the conversation and one beside it, both under way."""
    ask = [CreateResponse(), CreateResponse(response=ASIDE)]
    lab.send(*(reversed(ask) if aside_first else ask))
    lab.run(400)
    first, second = created(lab)
    return (second, first) if aside_first else (first, second)


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
    lab.send(CancelResponse(response_id=created(lab)[0]))
    assert done(lab).to_realtime()["response"]["status"] == "cancelled"
    assert not lab.session.state.history.messages()
    seen = len(lab.events)
    lab.run(10_000)
    assert lab.types(seen) == [], "what the model still says of it is nobody's"


def test_without_a_name_a_cancel_means_the_conversation() -> None:
    lab = opened()
    lab.send(CreateResponse(response=ASIDE))
    lab.send(CancelResponse(event_id="c1"))
    assert lab.events[-1].to_realtime()["error"]["code"] == "response_cancel_not_active"
    lab.run(10_000)
    assert done(lab).to_realtime()["response"]["status"] == "completed"


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


# beside a response of the conversation


@pytest.mark.parametrize("aside_first", [False, True])
def test_it_runs_beside_a_response_of_the_conversation(aside_first: bool) -> None:
    lab = opened()
    spoken, aside = both(lab, aside_first=aside_first)
    lab.run(10_000)
    assert statuses(lab) == {spoken: "completed", aside: "completed"}
    deltas = [e.response_id for e in lab.events if isinstance(e, AudioDelta)]
    assert {*deltas[:6]} == {*deltas[-6:]} == {spoken, aside}, "they do not interleave"
    for response_id in (spoken, aside):
        said = [
            each.delta
            for each in lab.events
            if isinstance(each, TranscriptDelta) and each.response_id == response_id
        ]
        assert "".join(said).startswith("turn")
        heard_ms = [
            e.duration_ms
            for e in lab.events
            if isinstance(e, AudioDelta) and e.response_id == response_id
        ]
        assert sum(heard_ms) == 2000
    (message,) = lab.session.state.history.messages()
    assert message["role"] == "assistant"


def test_each_is_told_its_own_options() -> None:
    lab = opened()
    lab.send(
        CreateResponse(response={"instructions": "aloud"}),
        CreateResponse(response={**ASIDE, "instructions": "apart", "modalities": ["text"]}),
    )
    told = [each.context.session_config["instructions"] for each in lab.submitted]
    assert told == ["aloud", "apart"]
    lab.run(10_000)
    lab.send(CreateResponse())
    assert not lab.submitted[-1].context.session_config.get("instructions")
    assert "response.output_text.delta" in lab.types()


def test_a_cancel_by_name_ends_that_one_alone() -> None:
    lab = opened()
    spoken, aside = both(lab)
    epoch = lab.session.epoch
    lab.send(CancelResponse(response_id=aside))
    assert statuses(lab) == {aside: "cancelled"}
    assert lab.session.epoch == epoch
    seen = len(lab.events)
    lab.run(10_000)
    assert statuses(lab)[spoken] == "completed"
    assert aside not in {getattr(each, "response_id", None) for each in lab.events[seen:]}
    lab.send(CancelResponse(response_id=aside))
    assert lab.events[-1].to_realtime()["error"]["code"] == "response_cancel_not_active"


def test_clearing_its_audio_ends_that_one_alone() -> None:
    lab = opened()
    spoken, aside = both(lab)
    lab.send(ClearOutputAudio(response_id=aside))
    lab.run(10_000)
    assert statuses(lab) == {aside: "cancelled", spoken: "completed"}


@pytest.mark.parametrize("stop", [CancelResponse(), BargeIn(), CancelInput()])
def test_an_interruption_ends_the_epoch_and_both(stop: Any) -> None:
    lab = opened()
    spoken, aside = both(lab)
    lab.send(stop)
    assert statuses(lab) == {spoken: "cancelled", aside: "cancelled"}
    assert lab.session.epoch == 1
    seen = len(lab.events)
    lab.run(10_000)
    assert not [each for each in lab.types(seen) if "delta" in each]


def test_speech_is_no_overlap_of_it() -> None:
    lab = opened()
    lab.send(CreateResponse(response=ASIDE))
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(10_000)
    assert "overlap.decision" not in lab.types()
    assert set(statuses(lab).values()) == {"completed"}
    assert len(statuses(lab)) == 2


def test_its_failure_is_its_own() -> None:
    lab = opened()
    spoken, aside = both(lab)
    context = next(each.context for each in lab.submitted if aside in each.context.request_id)
    lab.stage_output(context, error=StageError("runtime_append_failed", "on purpose", "response"))
    assert statuses(lab) == {aside: "failed"}
    lab.run(10_000)
    assert statuses(lab)[spoken] == "completed"


def test_a_unit_of_it_that_fails_takes_no_other_with_it() -> None:
    lab = opened()
    asked: list[effects.PlanAppend] = []
    lab.faults[effects.PlanAppend] = asked.append
    lab.send(CreateResponse(response=ASIDE), CreateResponse())
    aside, spoken = created(lab)
    lab.faults.clear()
    (plan,) = asked
    lab.feed(inputs.AppendPlanned(plan.op, fault=inputs.Fault("runtime_append_failed", "no")))
    assert statuses(lab) == {aside: "failed"}
    lab.run(10_000)
    assert statuses(lab)[spoken] == "completed"


def test_no_more_than_a_few_run_at_a_time() -> None:
    lab = opened()
    for _ in range(MOST_BESIDE):
        lab.send(CreateResponse(response=ASIDE))
    lab.send(CreateResponse(response=ASIDE, event_id="c9"))
    error = lab.events[-1].to_realtime()["error"]
    assert (error["code"], error["event_id"]) == ("input_backpressure", "c9")
    lab.run(10_000)
    assert [*statuses(lab).values()] == ["completed"] * MOST_BESIDE
    lab.send(CreateResponse(response=ASIDE))
    assert len(created(lab)) == MOST_BESIDE + 1


def test_a_close_ends_both() -> None:
    lab = opened()
    spoken, aside = both(lab)
    lab.send(CloseSession())
    assert statuses(lab) == {spoken: "cancelled", aside: "cancelled"}
    assert lab.types()[-1] == "session.closed"


def test_a_dead_stage_fails_both() -> None:
    lab = opened()
    spoken, aside = both(lab)
    lab.feed(inputs.StageFailed("runtime_failed", "on purpose"))
    assert statuses(lab) == {spoken: "failed", aside: "failed"}


def test_its_requests_leave_nothing_behind() -> None:
    lab = opened()
    for _ in range(5):
        lab.send(CreateResponse(response=ASIDE))
        lab.run(200)
        lab.send(CancelResponse(response_id=created(lab)[-1]))
    lab.send(CreateResponse(response=ASIDE))
    lab.run(10_000)
    submitted, reserved = lab.session.state.requests.ids()
    assert not submitted
    assert len(reserved) == 1, "the conversation's own"


def test_the_playback_of_the_conversation_needs_no_name_beside_it() -> None:
    lab = opened()
    spoken, _ = both(lab)
    lab.run(10_000)
    lab.send(AckPlayback(played_ms=100))
    assert lab.events[-1].to_realtime()["event"]["item_id"] == f"item_{spoken}"


@pytest.mark.parametrize("heard", [True, False])
def test_an_overflow_ends_it_only_for_a_client_that_heard_of_its_beginning(heard: bool) -> None:
    lab = opened()
    ours, aside = both(lab)
    begun = [e for e in lab.events if e.type == "response.created"]
    other = next(e for e in lab.events if e.type == "conversation.item.added")
    seen = len(lab.events)
    refused = (other,) if heard else (other, begun[1])
    lab.feed(inputs.OutputRefused(events=refused, limit="events"))
    ends = {e.to_realtime()["response_id"] for e in lab.events[seen:] if e.type == "response.done"}
    assert ends == ({ours, aside} if heard else {ours})
    assert lab.events[-1].type == "session.closed"
