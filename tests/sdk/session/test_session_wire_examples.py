"""Whole conversations as a client reads them, event by event."""

from __future__ import annotations

from typing import Any

from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    CloseSession,
    Commit,
    CreateItem,
    UpdateSession,
)
from duplex_sdk.testing.session_lab import SessionLab, tone

CLOSINGS = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
    "rate_limits.updated",
]
COMMIT = [
    "input_audio_buffer.speech_stopped",
    "conversation.item.added",
    "input_audio_buffer.committed",
    "conversation.item.done",
]
CALL = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
    "rate_limits.updated",
]


def of(lab: SessionLab, wire_type: str) -> list[dict[str, Any]]:
    return [r for r in (e.to_realtime() for e in lab.events) if r["type"] == wire_type]


def beginning(*, native: bool) -> list[str]:
    speak = ["response.speak"] if native else []
    return [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        *speak,
    ]


def test_one_turn_of_a_native_model_with_an_explicit_commit(make_lab: Any) -> None:
    answer = {"text": "Good day. Tell me.", "ms": 1500, "delay_ms": 0}
    lab: SessionLab = make_lab(
        {
            "instructions": "Answer briefly.",
            "turn_detection": None,
            "playback_commit_policy": "ack_only",
        },
        script={"turns": "native", "unit_ms": 1000, "answers": [answer]},
        by_update=True,
    )
    lab.send(AppendAudio(audio=tone(1000), duration_ms=1000, is_speech=True))
    lab.run(1000)
    lab.send(AppendAudio(audio=tone(600), duration_ms=600, is_speech=True))
    lab.run(600)
    lab.send(Commit(response_create=True))
    lab.run(3000)
    rid = of(lab, "response.created")[0]["response_id"]
    lab.send(AckPlayback(response_id=rid, played_ms=1500), CloseSession())
    delta = ["response.output_audio.delta", "response.output_audio_transcript.delta"]
    transcript = ["conversation.item.input_audio_transcription.completed"]
    types = [t for t in lab.types() if t not in transcript]
    assert types == [
        "session.created",
        "session.updated",
        "input_audio_buffer.speech_started",
        *COMMIT,
        *beginning(native=True),
        *delta,
        *delta,
        *CLOSINGS,
        "playback.acknowledged",
        "session.closed",
    ]
    assert of(lab, "input_audio_buffer.speech_stopped")[0]["audio_end_ms"] == 1600
    second = of(lab, "response.output_audio.delta")[1]["metadata"]
    assert second["end_of_turn"] is True
    assert second["audio_duration_ms"] == 1500
    assert second["audio_text_marks"][-1] == {"text_chars": 18, "audio_end_ms": 1500}
    done = of(lab, "response.done")[0]["response"]
    assert done["output"][0]["content"][0]["transcript"] == "Good day. Tell me."
    assert done["metadata"]["duplex"]["committed"] is False
    acked = of(lab, "playback.acknowledged")[0]["event"]
    assert (acked["committed_ms"], acked["history_committed"]) == (1500, True)


def test_barge_in_under_the_detector(make_lab: Any) -> None:
    answer = {"text": "The train leaves at nine", "ms": 6000, "delay_ms": 0}
    lab: SessionLab = make_lab(
        {"turn_detection": {"type": "server_vad"}}, script={"answers": [answer]}
    )
    lab.pause(100)
    lab.speak(600)
    lab.pause(600)
    lab.run(2900)
    rid = of(lab, "response.created")[0]["response_id"]
    lab.send(AckPlayback(response_id=rid, played_ms=1300))
    seen = len(lab.events)
    lab.speak(260)
    events = [e for e in lab.events[seen:] if "delta" not in e.to_realtime()["type"]]
    wire = [e.to_realtime() for e in events if e.to_realtime().get("action") != "drop"]
    assert [w["type"] for w in wire][:9] == [
        "input_audio_buffer.speech_started",
        "overlap.decision",
        *CLOSINGS,
    ]
    decision = wire[1]
    assert (decision["action"], decision["reason"]) == ("barge_in", "server_vad_speech_started")
    assert decision["epoch"] == 0
    whole = wire[3]["transcript"]
    item = wire[5]["item"]
    assert whole.startswith("The train")
    assert item["content"][0]["transcript"] == "The"
    assert item["status"] == "incomplete"
    response = wire[7]["response"]
    assert response["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert response["metadata"]["duplex"]["epoch"] == 0
    assert response["metadata"]["duplex"]["committed"] is True
    closings = [e for e in events if e.to_realtime()["type"] in CLOSINGS]
    assert {e.epoch for e in closings} == {1}
    started = wire[0]["item_id"]
    lab.pause(700)
    assert of(lab, "input_audio_buffer.committed")[-1]["item_id"] == started


def weather(**more: Any) -> dict[str, Any]:
    return {
        "unit_ms": 80,
        "answers": [{"delay_ms": 0}],
        "tools": {
            "name": "get_weather",
            "arguments": {"city": "Lyon"},
            "turn": 1,
            "then": {"text": "21 degrees", "ms": 400, "delay_ms": 0},
        },
        **more,
    }


TOOLS = [{"type": "function", "name": "get_weather"}]


def test_a_native_model_calls_a_function_and_goes_on_by_itself(make_lab: Any) -> None:
    script = weather(turns="native", at=[{"ms": 400, "say": {"delay_ms": 0}}])
    lab: SessionLab = make_lab({"auto_response": True}, script=script)
    lab.send(UpdateSession(session={"tools": TOOLS, "tool_choice": "auto"}))
    lab.pause(480)
    types = [t for t in lab.types() if t != "response.listen"]
    call = of(lab, "response.done")[0]["response"]["output"][0]
    assert [t for t in types if "transcription" not in t][2:] == CALL
    assert call["arguments"] == '{"city": "Lyon"}'
    seen = len(lab.events)
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "21"}
    lab.send(CreateItem(item=output, event_id="c9"))
    assert lab.types(seen) == ["conversation.item.added", "conversation.item.done"]
    # Nobody speaks: the model must hear of it all the same.
    lab.run(2000)
    assert of(lab, "response.output_audio_transcript.done")[0]["transcript"] == "21 degrees"
    lab.send(CreateItem(item=output, event_id="c12"))
    error = of(lab, "error")[0]["error"]
    assert error["code"] == "invalid_function_call_output"
    assert (error["event_id"], error["param"]) == ("c12", "item.output")


def test_a_turn_based_model_calls_a_function_inside_its_answer(make_lab: Any) -> None:
    lab: SessionLab = make_lab(script=weather(turns="commit"))
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(200)
    call = next(t for t in of(lab, "response.done") if t["response"]["output"])
    assert call["response"]["output"][0]["name"] == "get_weather"
    created = [c["response_id"] for c in of(lab, "response.created")]
    done = [d["response_id"] for d in of(lab, "response.done")]
    assert sorted(created) == sorted(done)
