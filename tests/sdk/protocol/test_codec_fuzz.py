"""Whatever a client sends, the answer is a command or a named refusal, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from duplex_sdk.protocol.duplex import (
    COMMAND_ALIASES,
    DUPLEX_COMMANDS,
    DUPLEX_EVENTS,
    ERROR_CODES,
    DuplexEvent,
    EventAck,
    RealtimeCommand,
    RealtimeProtocolError,
    ResumeRequest,
    decode_command,
    decode_event,
    encode_command,
    parse_item,
)
from hypothesis import given, settings
from hypothesis import strategies as st

FRAME_TYPES = [
    *(command.type for command in DUPLEX_COMMANDS),
    *COMMAND_ALIASES,
    "session.resume",
    "session.event_ack",
    "conversation.item.retrieve",
]
FIELD_NAMES = [
    "event_id",
    "session",
    "response",
    "response_id",
    "item",
    "item_id",
    "previous_item_id",
    "audio_end_ms",
    "content_index",
    "audio",
    "delta",
    "format",
    "sample_rate_hz",
    "is_speech",
    "video_frames",
    "max_slice_nums",
    "duration_ms",
    "vad",
    "overlap",
    "text",
    "final",
    "response_create",
    "event",
    "payload",
    "played_ms",
    "committed_ms",
    "truncate",
    "reason",
    "session_id",
    "resume_token",
    "server_event_seq",
    "last_received_server_event_seq",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=12)
    | st.sampled_from(["AAE=", "AA", "item_1", "pcm16", "user", "message", "input_text", 10**40])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(FIELD_NAMES) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
COMMAND_FRAMES = st.builds(
    lambda name, fields: {**fields, "type": name},
    st.sampled_from(FRAME_TYPES),
    st.dictionaries(st.sampled_from(FIELD_NAMES), VALUES, max_size=5),
)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the refusal it raises; any other exception fails the test."""
    try:
        return call()
    except RealtimeProtocolError as refusal:
        return refusal


def answer(frame: Any) -> RealtimeCommand | ResumeRequest | EventAck | None:
    result = outcome(lambda: decode_command(frame))
    if isinstance(result, RealtimeProtocolError):
        assert result.code in ERROR_CODES
        assert result.message
        return None
    assert isinstance(result, RealtimeCommand | ResumeRequest | EventAck)
    return result


@settings(max_examples=400, deadline=None)
@given(frame=COMMAND_FRAMES)
def test_frame_of_a_known_type_is_read_or_refused(frame: dict[str, Any]) -> None:
    command = answer(json.dumps(frame))
    assert (command is None) == (answer(frame) is None)
    if command is not None:
        assert decode_command(json.dumps(encode_command(command))) == command


@settings(max_examples=200, deadline=None)
@given(text=st.binary(max_size=80) | st.text(max_size=80))
def test_arbitrary_text_is_refused_by_name(text: str | bytes) -> None:
    assert answer(text) is None


@settings(max_examples=200, deadline=None)
@given(frame=COMMAND_FRAMES, cut=st.floats(0, 1), byte=st.integers(0, 255))
def test_damaged_frame_is_read_or_refused(frame: dict[str, Any], cut: float, byte: int) -> None:
    text = bytearray(json.dumps(frame).encode())
    place = int(cut * (len(text) - 1))
    answer(bytes(text[:place]))
    text[place] = byte
    answer(bytes(text))


@settings(max_examples=200, deadline=None)
@given(item=st.dictionaries(st.sampled_from(["type", "role", "content", "id", "status", "output",
    "call_id", "arguments", "name"]), VALUES | st.sampled_from(["message", "function_call",
    "function_call_output", "user", "assistant"]), max_size=5))  # fmt: skip
def test_item_is_read_or_refused(item: dict[str, Any]) -> None:
    result = outcome(lambda: parse_item(item, default_id="item_new"))
    if isinstance(result, RealtimeProtocolError):
        assert result.code in ERROR_CODES
        assert result.param is not None
        assert result.param.startswith("item")
    else:
        assert result.item.id


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from([event.type for event in DUPLEX_EVENTS]),
    fields=st.dictionaries(
        st.sampled_from([name for event in DUPLEX_EVENTS for name in event.WIRE])
        | st.just("error"),
        VALUES,
        max_size=6,
    ),
)
def test_server_event_is_read_or_refused(name: str, fields: dict[str, Any]) -> None:
    result = outcome(lambda: decode_event({**fields, "type": name}))
    if isinstance(result, RealtimeProtocolError):
        assert result.code in {"bad_event", "unknown_event"}
    else:
        assert isinstance(result, DuplexEvent)
