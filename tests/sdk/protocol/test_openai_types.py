"""OpenAI's own Python types accept every Tier 1 and Tier 2 event that can be sent."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexCapabilities, DuplexSessionConfig
from duplex_sdk.protocol import duplex
from duplex_sdk.protocol.duplex import (
    EXTENSION_EVENTS,
    TIER_1_EVENTS,
    TIER_2_EVENTS,
    AudioTextMark,
    ContentPart,
    DuplexEvent,
    Item,
    ItemCreated,
    ResponseObject,
    StatusDetails,
    error_event,
)
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

ADAPTER: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
OPENAI_DEFAULTS = {
    "output_modalities": ["audio"],
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "turn_detection": {"type": "server_vad"},
        },
        "output": {"format": {"type": "audio/pcm", "rate": 24000}},
    },
}
CAPABILITIES = DuplexCapabilities.turn_based(supports_tools=True)

SPOKEN = Item(
    id="item_resp_1",
    type="message",
    role="assistant",
    content=(
        ContentPart(
            type="output_audio",
            transcript="Good day.",
            audio_duration_ms=900,
            audio_text_marks=(AudioTextMark(9, 900),),
        ),
        ContentPart(type="output_text", text="Written too."),
    ),
)
HEARD = Item(
    id="item_u1",
    type="message",
    role="user",
    content=(
        ContentPart(type="input_audio", transcript="hello", is_speech=False),
        ContentPart(type="input_text", text="hello"),
        ContentPart(type="input_image", image_url="duplex:input-image", detail="auto"),
    ),
)
CALL = Item(id="item_f1", type="function_call", name="f", call_id="call_1", arguments="{}")
OUTPUT = Item(id="item_o1", type="function_call_output", call_id="call_1", output="21")
SYSTEM = Item(
    id="item_s1",
    type="message",
    role="system",
    content=(ContentPart(type="input_text", text="Be brief."),),
)
EMPTY = Item(id="item_resp_1", type="message", role="assistant", status="in_progress", content=())


def session_object(**patch: Any) -> dict[str, Any]:
    config = DuplexSessionConfig.from_realtime(
        patch, capabilities=CAPABILITIES, profile_defaults=OPENAI_DEFAULTS, lenient=True
    ).for_model("demo")
    return config.public(
        session_id="duplex-1",
        capabilities=CAPABILITIES,
        state="open",
        turn_state="idle",
        epoch=0,
        turn_id=0,
        playback={"generated_ms": 0, "sent_ms": 0, "played_ms": 0, "committed_ms": 0},
        expires_at=1_900_000_000,
    )


TOOLS = [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}]
FULL_SESSION = session_object(
    instructions="Be brief.",
    voice="alba",
    tools=TOOLS,
    tool_choice={"type": "function", "name": "f"},
    parallel_tool_calls=True,
    max_output_tokens=100,
    tracing="auto",
    truncation="auto",
    include=["item.input_audio_transcription.logprobs"],
    audio={
        "input": {
            "format": {"type": "audio/pcmu"},
            "transcription": {"model": "gpt-4o-mini-transcribe"},
            "noise_reduction": {"type": "near_field"},
            "turn_detection": {"type": "semantic_vad", "eagerness": "low"},
        },
        "output": {"format": {"type": "audio/pcma"}, "speed": 1.2},
    },
)


def response(status: Any, details: StatusDetails | None = None, **changes: Any) -> ResponseObject:
    fields = {"output": (SPOKEN,), "output_modalities": ("audio",), **changes}
    return ResponseObject(id="resp_1", status=status, status_details=details, **fields)


RESPONSES = [
    response("completed", metadata={"client_event_id": "c1"}),
    response("completed", usage={"total_tokens": 3, "input_tokens": 1, "output_tokens": 2}),
    response("incomplete", StatusDetails(type="incomplete", reason="max_output_tokens")),
    response("cancelled", StatusDetails(type="cancelled", reason="turn_detected")),
    response("cancelled", StatusDetails(type="cancelled", reason="client_cancelled"), output=()),
    response(
        "failed",
        StatusDetails(type="failed", error={"type": "server_error", "code": "engine_error"}),
    ),
    response("completed", output=(CALL,)),
]
ITEMS = [SPOKEN, HEARD, CALL, OUTPUT, SYSTEM, EMPTY]
ADDRESS = {"response_id": "resp_1", "item_id": "item_resp_1"}
USAGE = {"type": "duration", "seconds": 1.2}

# Class name to the sets of fields it is tried with.
FIELDS: dict[str, list[dict[str, Any]]] = {
    "SessionUpdated": [{"session": session_object()}, {"session": FULL_SESSION}],
    "SpeechStarted": [{"audio_start_ms": 0, "item_id": "item_u1"}],
    "SpeechStopped": [{"audio_end_ms": 900, "item_id": "item_u1"}],
    "InputCleared": [{}],
    "ItemAdded": [{"item": item, "previous_item_id": None} for item in ITEMS],
    "ItemDone": [{"item": item, "previous_item_id": "item_u0"} for item in ITEMS],
    "ItemRetrieved": [{"item": item} for item in ITEMS],
    "InputTranscriptionCompleted": [{"item_id": "i", "transcript": "hello", "usage": USAGE}],
    "InputTranscriptionDelta": [{"item_id": "i", "delta": "hel"}],
    "InputTranscriptionFailed": [{"item_id": "i", "error": {"code": "x", "message": "m"}}],
    "OutputItemAdded": [{"response_id": "resp_1", "item": item} for item in (EMPTY, CALL)],
    "OutputItemDone": [{"response_id": "resp_1", "item": item} for item in (SPOKEN, CALL)],
    "ContentPartAdded": [
        {**ADDRESS, "part": ContentPart(type="audio", transcript="")},
        {**ADDRESS, "content_index": 1, "part": ContentPart(type="text", text="")},
    ],
    "ContentPartDone": [{**ADDRESS, "part": ContentPart(type="audio", transcript="Good day.")}],
    "AudioDone": [ADDRESS],
    "TranscriptDelta": [{**ADDRESS, "delta": ""}],
    "TranscriptDone": [{**ADDRESS, "transcript": "Good day."}],
    "TextDelta": [{**ADDRESS, "delta": "Good"}],
    "TextDone": [{**ADDRESS, "text": "Good day."}],
    "FunctionCallArgumentsDelta": [{**ADDRESS, "call_id": "call_1", "delta": "{"}],
    "FunctionCallArgumentsDone": [
        {**ADDRESS, "call_id": "call_1", "name": "f", "arguments": "{}"},
    ],
    "RateLimitsUpdated": [{}],
    "OutputAudioCleared": [{"response_id": "resp_1"}],
    "SessionCreated": [
        {"session": session_object(), "attachment_generation": 1, "resume_token": "t"},
        {"session": session_object(turn_detection=None)},
    ],
    "InputCommitted": [{"item_id": "item_u1", "event": {"type": "input.committed"}}],
    "ItemDeleted": [{"item_id": "item_u1", "event": {"deleted": True}}],
    "ItemTruncated": [{"item_id": "item_u1", "audio_end_ms": 5, "event": {"truncated": True}}],
    "ResponseCreated": [{"response_id": "resp_1", "response": response("in_progress", output=())}],
    "AudioDelta": [
        {**ADDRESS, "delta": b"\0\1", "format": "pcm16"},
        {
            **ADDRESS,
            "delta": b"\0\1",
            "format": "pcm16",
            "sample_rate_hz": 24000,
            "metadata": {"epoch": 0, "end_of_turn": False},
        },
    ],
    "ResponseDone": [{"response_id": "resp_1", "response": ended} for ended in RESPONSES],
}
EVENTS: list[DuplexEvent] = [
    getattr(duplex, name)(event_id="event_1", **fields)
    for name, cases in FIELDS.items()
    for fields in cases
]
EVENTS += [
    error_event("input_backpressure", "full", new_id="event_1"),
    error_event(
        "bad_event", "no", new_id="event_1", event_id="c1", param="item", command="response.create"
    ),
]


def test_every_event_that_is_sent_is_tried() -> None:
    # The beta spelling is read and never sent.
    sent = {*TIER_1_EVENTS, *TIER_2_EVENTS, *EXTENSION_EVENTS} - {ItemCreated}
    assert {type(event) for event in EVENTS} == sent


@pytest.mark.parametrize(
    "event", EVENTS, ids=[f"{index}-{event.type}" for index, event in enumerate(EVENTS)]
)
def test_openai_type_accepts_event(event: DuplexEvent) -> None:
    text = json.dumps({**event.to_realtime(), "server_event_seq": 1, "epoch": 0})
    parsed = ADAPTER.validate_json(text)
    assert parsed.type == event.type
    assert parsed.event_id == "event_1"


def test_openai_knows_each_type_by_one_class() -> None:
    union = typing.get_args(typing.get_args(RealtimeServerEvent)[0])
    known = {
        literal
        for member in union
        for literal in typing.get_args(member.model_fields["type"].annotation)
    }
    sent = {event.type for event in (*TIER_1_EVENTS, *TIER_2_EVENTS, *EXTENSION_EVENTS)}
    assert sent <= known
