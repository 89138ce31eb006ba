"""What each profile lets out, and how it looks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    CloseSession,
    DuplexRawEvent,
    FunctionCallArgumentsDone,
    Item,
    ItemAdded,
    ItemDone,
    Listen,
    OutputItemAdded,
    OutputItemDone,
    OverlapDecision,
    PlaybackAcknowledged,
    RateLimitsUpdated,
    RealtimeProtocolError,
    ResponseCreated,
    ResponseDone,
    ResponseObject,
    SessionClosed,
    SessionExpired,
    SessionHeartbeatAck,
    SessionUpdated,
    Speak,
    StatusDetails,
    TextDelta,
    TurnEvent,
    UpdateSession,
    error_event,
)
from duplex_server.serving import DuplexProfile, OpenAIProfile

TIER_3 = [
    Speak(response_id="r", item_id="i", metadata={}),
    Listen(response={}),
    OverlapDecision(policy="p", action="a", reason="r", metadata={}),
    PlaybackAcknowledged(event={}),
    TurnEvent(event="e", turn_state="idle"),
    DuplexRawEvent(name="units_late", event={}),
    SessionClosed(reason="client_close"),
    SessionExpired(reason="idle_ttl_expired"),
]


def created(response_id: str) -> ResponseCreated:
    return ResponseCreated(
        response_id=response_id,
        response=ResponseObject(id=response_id, status="in_progress", output_modalities=("audio",)),
    )


def done(response_id: str, **fields: Any) -> ResponseDone:
    values: dict[str, Any] = {"status": "completed", "output_modalities": ("audio",)} | fields
    return ResponseDone(response_id=response_id, response=ResponseObject(id=response_id, **values))


def rendered_details(status: str, reason: str, **details: Any) -> Any:
    event = done(
        "r", status=status, status_details=StatusDetails(type=status, reason=reason, **details)
    )
    return OpenAIProfile().render(event)["response"]["status_details"]


@pytest.mark.parametrize("event", TIER_3, ids=lambda event: type(event).__name__)
def test_openai_profile_never_sends_what_openai_does_not_define(event):
    assert OpenAIProfile().outgoing(event) == ()
    assert DuplexProfile().outgoing(event) == (event,)


def test_an_answer_to_a_clients_own_heartbeat_is_sent():
    event = SessionHeartbeatAck()
    assert OpenAIProfile().outgoing(event) == (event,)


def chosen(events: Any) -> OpenAIProfile:
    profile = OpenAIProfile()
    profile.command_submitted(UpdateSession(session={"duplex": {"events": events}}))
    profile.outgoing(SessionUpdated(session={}))
    return profile


def test_chosen_events_are_sent_and_the_choice_is_echoed():
    profile = chosen(["response.listen", "duplex.units_late"])
    passed = [type(event) for event in TIER_3 if profile.outgoing(event)]
    assert passed == [Listen, DuplexRawEvent]
    echoed = profile.render(SessionUpdated(session={"id": "s"}))["session"]
    assert echoed == {"id": "s", "duplex": {"events": ["response.listen", "duplex.units_late"]}}


def test_all_events_can_be_chosen_and_dropped_again():
    profile = chosen("all")
    assert all(profile.outgoing(event) for event in TIER_3)
    profile.command_submitted(UpdateSession(session={"duplex": {"events": []}}))
    profile.outgoing(SessionUpdated(session={}))
    assert not any(profile.outgoing(event) for event in TIER_3)


def test_a_refused_update_changes_no_choice_and_the_next_one_still_counts():
    profile = OpenAIProfile()
    profile.command_submitted(UpdateSession(session={"duplex": {"events": "all"}}))
    profile.command_submitted(UpdateSession(session={"duplex": {"events": ["response.listen"]}}))
    profile.outgoing(error_event("bad_event", "no", new_id="e", command="session.update"))
    profile.outgoing(SessionUpdated(session={}))
    assert [type(event) for event in TIER_3 if profile.outgoing(event)] == [Listen]


def test_an_update_without_a_choice_keeps_it():
    profile = chosen("all")
    profile.command_submitted(UpdateSession(session={"voice": "ash"}))
    profile.outgoing(SessionUpdated(session={}))
    assert profile.outgoing(TIER_3[0])


@pytest.mark.parametrize("events", [3, None, "some", [1], {"a": 1}])
def test_a_malformed_choice_names_its_field(events):
    with pytest.raises(RealtimeProtocolError) as refused:
        OpenAIProfile().check_command(UpdateSession(session={"duplex": {"events": events}}))
    assert refused.value.code == "bad_event"
    assert refused.value.param == "session.duplex.events"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("turn_detected", "turn_detected"),
        ("barge_in", "turn_detected"),
        ("client_cancelled", "client_cancelled"),
        ("output_audio_buffer_clear", "client_cancelled"),
        ("new_response", "client_cancelled"),
        ("session_closed", "client_cancelled"),
    ],
)
def test_openai_profile_knows_two_reasons_of_a_cancel(reason, shown):
    assert rendered_details("cancelled", reason)["reason"] == shown


def test_openai_profile_tells_a_failure_by_its_error():
    error = {"type": "server_error", "code": "runtime_failed"}
    details = rendered_details("failed", "runtime_failed", error=error)
    assert details == {"type": "failed", "error": error}


def test_openai_profile_echoes_the_clients_metadata_alone():
    response = done("r", metadata={"client_event_id": "c", "duplex": {"epoch": 1}})
    assert OpenAIProfile().render(response)["response"]["metadata"] == {"client_event_id": "c"}
    ours_only = done("r", metadata={"duplex": {"epoch": 1}})
    assert OpenAIProfile().render(ours_only)["response"]["metadata"] is None
    own_duplex_key = done("r", metadata={"duplex": "mine"})
    assert OpenAIProfile().render(own_duplex_key)["response"]["metadata"] == {"duplex": "mine"}


def test_duplex_profile_shows_reasons_and_metadata_as_they_are():
    event = done(
        "r",
        status="cancelled",
        status_details=StatusDetails(type="cancelled", reason="barge_in"),
        metadata={"duplex": {"epoch": 1}},
    )
    shown = DuplexProfile().render(event)["response"]
    assert shown["status_details"]["reason"] == "barge_in"
    assert shown["metadata"] == {"duplex": {"epoch": 1}}


@pytest.mark.parametrize("profile", [OpenAIProfile(), DuplexProfile()], ids=lambda p: p.name)
def test_every_event_of_a_live_session_carries_its_epoch(profile):
    delta = TextDelta(response_id="r", item_id="i", delta="x", epoch=7)
    assert profile.render(delta)["epoch"] == 7
    assert "epoch" not in profile.render(msgspec.structs.replace(delta, epoch=None))


def test_openai_profile_is_silent_about_faults_nobody_asked_for():
    profile = OpenAIProfile()
    assert profile.outgoing(error_event("server_vad_unavailable", "x", new_id="e")) == ()
    answer = error_event("bad_event", "x", new_id="e", command="response.create")
    assert profile.outgoing(answer) == (answer,)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("client_close", 1000),
        ("idle_ttl_expired", 1000),
        ("session_length_reached", 1000),
        ("shutdown", 1001),
        ("output_backpressure", 1011),
        ("runtime_failed", 1011),
    ],
)
def test_openai_profile_closes_with_the_code_the_reason_deserves(reason, code):
    ending = OpenAIProfile().ending(SessionClosed(reason=reason), "unused")
    assert (ending.code, ending.reason) == (code, reason)
    assert (ending.error is not None) == (code == 1011)


def test_a_close_with_the_clients_own_words_is_a_normal_one():
    profile = OpenAIProfile()
    profile.command_submitted(CloseSession(reason="that was all"))
    assert profile.ending(SessionClosed(reason="that was all"), "unused").code == 1000


def test_the_fault_that_ended_the_session_is_the_error_before_the_close():
    profile = OpenAIProfile()
    fault = error_event("runtime_append_failed", "a stage died", new_id="e")
    profile.outgoing(fault)
    assert profile.ending(SessionClosed(reason="runtime_failed"), "unused").error is fault


def test_a_fault_the_session_survived_is_not_blamed_for_its_end():
    profile = OpenAIProfile()
    profile.outgoing(error_event("runtime_append_failed", "x", new_id="e"))
    profile.outgoing(created("r"))
    error = profile.ending(SessionClosed(reason="overload"), "unused").error
    assert error is not None
    assert error.error.code == "overload"
    assert error.error.type == "server_error"


def test_duplex_profile_closes_normally_after_a_terminal_event():
    assert DuplexProfile().ending(SessionClosed(reason="overload"), "unused").code == 1000
    assert DuplexProfile().ending(None, "shutdown").code == 1001
    assert DuplexProfile().ending(None, "engine_dead").code == 1011


def test_a_function_call_waits_for_the_open_message_response():
    profile = OpenAIProfile()
    call = Item(id="item_call", type="function_call", name="f", call_id="c", arguments="{}")
    message_delta = AudioDelta(response_id="msg", item_id="item_msg", delta=b"\0\0", format="pcm16")
    function_call = [
        created("fn"),
        OutputItemAdded(response_id="fn", item=call),
        ItemAdded(item=call),
        FunctionCallArgumentsDone(
            response_id="fn", item_id="item_call", call_id="c", name="f", arguments="{}"
        ),
        ItemDone(item=call),
        OutputItemDone(response_id="fn", item=call),
        done("fn"),
        RateLimitsUpdated(event_id="of the call"),
    ]
    users = ItemAdded(item=Item(id="item_user", type="message", role="user"))
    stream = [created("msg"), *function_call, users, message_delta, done("msg")]
    stream += [RateLimitsUpdated(event_id="of the message"), created("next")]
    sent = [outgoing for event in stream for outgoing in profile.outgoing(event)]
    assert sent == [
        stream[0],
        users,
        message_delta,
        done("msg"),
        *function_call,
        RateLimitsUpdated(event_id="of the message"),
        created("next"),
    ]
    assert [e for event in stream for e in DuplexProfile().outgoing(event)] == stream


@pytest.mark.parametrize("beside_first", [False, True])
def test_an_answer_outside_the_conversation_holds_nothing_up(beside_first: bool):
    ours = {"duplex": {"conversation": "none"}}
    beside = msgspec.structs.replace(
        created("aside"), response=msgspec.structs.replace(created("aside").response, metadata=ours)
    )
    message = Item(id="item_aside", type="message", role="assistant")
    opened = [beside, created("msg")] if beside_first else [created("msg"), beside]
    stream = [
        *opened,
        OutputItemAdded(response_id="aside", item=message),
        TextDelta(response_id="aside", item_id="item_aside", delta="a title"),
        AudioDelta(response_id="msg", item_id="item_msg", delta=b"\0\0", format="pcm16"),
        OutputItemDone(response_id="aside", item=message),
        done("aside"),
        RateLimitsUpdated(event_id="of the answer"),
        done("msg"),
        RateLimitsUpdated(event_id="of the message"),
    ]
    profile = OpenAIProfile()
    assert [e for event in stream for e in profile.outgoing(event)] == stream


def announced(profile: OpenAIProfile, *, barge_in: bool, detection: Any = None) -> Any:
    session = {
        "audio": {"input": {"turn_detection": detection, "transcription": None}},
        "capabilities": {"supports_barge_in": barge_in},
    }
    shown = profile.render(SessionUpdated(session=session))["session"]["audio"]["input"]
    assert shown["transcription"] is None
    return shown["turn_detection"]


def update(profile: OpenAIProfile, session: dict[str, Any], *, accepted: bool = True) -> None:
    profile.command_submitted(UpdateSession(session=session))
    refusal = error_event("bad_event", "no", new_id="e", command="session.update")
    profile.outgoing(SessionUpdated(session={}) if accepted else refusal)


MODEL_TURNS = {"type": "server_vad", "create_response": True, "interrupt_response": True}


def test_model_that_cannot_be_interrupted_is_announced_as_taking_turns():
    assert announced(OpenAIProfile(), barge_in=False) == MODEL_TURNS
    assert announced(OpenAIProfile(), barge_in=True) is None
    running = {"type": "server_vad", "threshold": 0.4}
    assert announced(OpenAIProfile(), barge_in=True, detection=running) == running


def test_client_that_asks_for_no_detection_sees_none():
    profile = OpenAIProfile()
    update(profile, {"audio": {"input": {"turn_detection": None}}})
    assert announced(profile, barge_in=False) is None
    update(profile, {"voice": "ash"})
    assert announced(profile, barge_in=False) is None
    update(profile, {"turn_detection": {"type": "semantic_vad"}}, accepted=False)
    assert announced(profile, barge_in=False) is None
    update(profile, {"turn_detection": {"type": "semantic_vad"}})
    assert announced(profile, barge_in=False) == MODEL_TURNS
