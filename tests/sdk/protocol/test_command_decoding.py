"""Client frames: every command, alias and disguise, and what each refusal names."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from duplex_sdk.protocol import realtime
from duplex_sdk.protocol.duplex import (
    COMMAND_ALIASES,
    DUPLEX_COMMANDS,
    ERROR_CODES,
    AckPlayback,
    AppendAudio,
    AppendHints,
    AppendText,
    BargeIn,
    CancelInput,
    CancelResponse,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    EventAck,
    Heartbeat,
    RealtimeCommand,
    RealtimeProtocolError,
    ResumeRequest,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    UpdateSession,
    channel,
    decode_command,
    encode_command,
    mailbox_payload,
)
from duplex_sdk.protocol.realtime import commands as tier1

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
JPEG = b"\xff\xd8\xff\xe0" + bytes(8)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def refusal(frame: Any, **options: Any) -> RealtimeProtocolError:
    with pytest.raises(RealtimeProtocolError) as caught:
        decode_command(frame, **options)
    assert caught.value.code in ERROR_CODES
    return caught.value


SAMPLES: list[RealtimeCommand] = [
    UpdateSession(event_id="c1", session={"voice": "alba"}),
    tier1.ClearInput(event_id="c1"),
    tier1.ClearOutputAudio(event_id="c1", response_id="resp_1"),
    CreateResponse(event_id="c1", response={"metadata": {"a": "b"}}),
    CancelResponse(event_id="c1", response_id="resp_1"),
    CreateItem(event_id="c1", item={"type": "message"}, previous_item_id="root"),
    DeleteItem(event_id="c1", item_id="item_1"),
    TruncateItem(event_id="c1", item_id="item_1", content_index=0, audio_end_ms=900),
    AppendAudio(
        event_id="c1",
        audio=b"\0\1\2",
        format="g711_ulaw",
        sample_rate_hz=8000,
        is_speech=False,
        video_frames=(PNG, JPEG),
        max_slice_nums=1,
        duration_ms=20,
        audio_end_ms=40,
        hints=AppendHints(
            audio_start_ms=0,
            speech=False,
            speech_probability=0.0,
            vad={"probability": 0.2},
            overlap_action="listen",
            force_barge_in=True,
            force_listen=True,
            transcript="ok",
        ),
    ),
    Commit(event_id="c1", final=False, response_create=False, is_speech=False),
    AppendText(event_id="c1", text=""),
    CancelInput(event_id="c1"),
    BargeIn(event_id="c1"),
    SignalTurn(event_id="c1", event="user_started", payload={"a": 1}),
    AckPlayback(
        event_id="c1",
        played_ms=10.5,
        committed_ms=0.0,
        response_id="resp_1",
        item_id="item_resp_1",
        truncate=True,
    ),
    Heartbeat(event_id="c1"),
    CloseSession(event_id="c1", reason="enough"),
]


def test_samples_cover_the_vocabulary() -> None:
    assert [type(command) for command in SAMPLES] == list(DUPLEX_COMMANDS)


@pytest.mark.parametrize("command", SAMPLES, ids=lambda command: command.type)
def test_command_survives_the_wire(command: RealtimeCommand) -> None:
    encoded = encode_command(command)
    assert decode_command(json.dumps(encoded)) == command
    assert decode_command(json.dumps(encoded).encode()) == command
    assert decode_command(encoded) == command


@pytest.mark.parametrize(
    "frame",
    [
        ResumeRequest(session_id="s", resume_token="t", last_received_server_event_seq=7),
        EventAck(server_event_seq=0, event_id="c2"),
        RetrieveItem(item_id="item_1"),
    ],
    ids=lambda frame: frame.type,
)
def test_other_client_frames_survive_the_wire(frame: Any) -> None:
    assert decode_command(json.dumps(encode_command(frame))) == frame


def test_resume_token_stays_out_of_the_repr() -> None:
    assert "secret" not in repr(ResumeRequest(session_id="s", resume_token="secret"))


@pytest.mark.parametrize(("alias", "name"), COMMAND_ALIASES.items())
def test_alias_decodes_to_the_canonical_command(alias: str, name: str) -> None:
    fields = {"text": "a", "event": "user_started", "played_ms": 1}
    aliased = decode_command({"type": alias, **fields})
    assert aliased.type == name
    if alias == "input.commit":
        assert aliased == Commit(response_create=True)
    else:
        assert aliased == decode_command({"type": name, **fields})


def test_input_commit_may_still_decline_an_answer() -> None:
    command = decode_command({"type": "input.commit", "create_response": False})
    assert command == Commit(response_create=False)


@pytest.mark.parametrize("name", ["push_chunk", "input.audio.append", "session.created", ""])
def test_name_outside_the_vocabulary_is_unknown(name: str) -> None:
    error = refusal({"type": name, "event_id": "c1"})
    assert (error.code, error.event_id, error.command) == ("unknown_event", "c1", None)


@pytest.mark.parametrize(
    ("event", "payload", "expected"),
    [
        ("input.cancel", {}, CancelInput()),
        ("barge_in", {}, BargeIn()),
        ("response.cancel", {"response_id": "r"}, CancelResponse(response_id="r")),
        ("session.update", {"voice": "alba"}, UpdateSession(session={"voice": "alba"})),
        ("conversation.item.create", {"item": {}}, CreateItem(item={})),
        ("conversation.item.delete", {"item_id": "i"}, DeleteItem(item_id="i")),
        ("conversation.item.retrieve", {"item_id": "i"}, RetrieveItem(item_id="i")),
        (
            "conversation.item.truncate",
            {"item_id": "i", "audio_end_ms": 5},
            TruncateItem(item_id="i", audio_end_ms=5),
        ),
        ("assistant_done", {"x": 1}, SignalTurn(event="assistant_done", payload={"x": 1})),
    ],
)
def test_turn_signal_in_disguise_is_the_command_itself(
    event: str, payload: dict[str, Any], expected: RealtimeCommand
) -> None:
    frame = {"type": "turn.signal", "event": event, "payload": payload}
    assert decode_command(frame) == expected


@pytest.mark.parametrize("event", ["close", "timeout", "", None, 5])
def test_turn_signal_without_a_usable_event_is_refused(event: Any) -> None:
    error = refusal({"type": "turn.signal", "event": event})
    assert (error.code, error.param, error.command) == ("bad_event", "event", "turn.signal")


MALFORMED_TEXT = {
    "empty": b"",
    "not json": b"hello",
    "nan": b'{"type":"session.close","x":NaN}',
    "infinity": b'{"type":"session.close","x":-Infinity}',
    "number out of range": b'{"type":"session.close","x":1e999}',
    "digits without end": b'{"type":"session.close","x":' + b"9" * 6000 + b"}",
    "deep": b'{"type":"session.close","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep append": b'{"type":"input_audio_buffer.append","audio":' + b"[" * 100_000,
    "invalid utf-8": b'{"type":"session.close","x":"\xff"}',
    "lone surrogate escape": b'{"type":"session.close","reason":"\\ud800"}',
    "cut off": b'{"type":"session.close"',
    "two values": b"{}{}",
}


@pytest.mark.parametrize("text", MALFORMED_TEXT.values(), ids=MALFORMED_TEXT.keys())
def test_text_that_is_not_json_is_named_so(text: bytes) -> None:
    assert refusal(text).code == "invalid_json"


def test_text_with_a_lone_surrogate_is_not_json() -> None:
    assert refusal('{"type":"session.close","reason":"\ud800"}').code == "invalid_json"


@pytest.mark.parametrize("text", ["null", "[]", "5", '"session.close"', "true", "[{}]"])
def test_json_that_is_no_object_is_a_bad_event(text: str) -> None:
    assert refusal(text).code == "bad_event"


@pytest.mark.parametrize("name", [None, 5, [], {}, True])
def test_type_that_is_no_string_is_a_bad_event(name: Any) -> None:
    error = refusal({"type": name, "event_id": "c1"})
    assert (error.code, error.param, error.event_id) == ("bad_event", "type", "c1")


@pytest.mark.parametrize("event_id", ["", "x" * 513, 5, [], False])
def test_bad_event_id_is_refused_and_not_repeated(event_id: Any) -> None:
    error = refusal({"type": "session.heartbeat", "event_id": event_id})
    assert (error.code, error.param, error.event_id) == ("bad_event", "event_id", None)
    append = {"type": "input_audio_buffer.append", "audio": "AAA=", "event_id": event_id}
    assert refusal(json.dumps(append)).param == "event_id"


def test_longest_event_id_is_kept() -> None:
    assert decode_command({"type": "barge_in", "event_id": "x" * 512}).event_id == "x" * 512


def test_mapping_that_json_cannot_carry_is_refused() -> None:
    ring: dict[str, Any] = {"type": "session.close"}
    ring["x"] = ring
    for frame in (ring, {"type": "session.close", "x": {1, 2}, "y": object()}):
        assert refusal(frame).code == "bad_event"
    assert refusal({"type": "session.close", "reason": "\ud800"}).code == "bad_event"


def test_mapping_is_copied() -> None:
    session = {"extra_body": {"a": 1}}
    command = decode_command({"type": "session.update", "session": session})
    session["extra_body"]["a"] = 2
    assert isinstance(command, UpdateSession)
    assert command.session == {"extra_body": {"a": 1}}


@pytest.mark.parametrize(("size", "accepted"), [(100, True), (101, False)])
def test_frame_may_reach_the_limit_exactly(size: int, accepted: bool) -> None:
    frame = '{"type":"session.close","reason":"é"}'
    frame = frame.replace("é", "é" + "x" * (size - len(frame.encode())))
    assert len(frame.encode()) == size
    for text in (frame, frame.encode()):
        if accepted:
            assert isinstance(decode_command(text, max_bytes=100), CloseSession)
        else:
            assert refusal(text, max_bytes=100).code == "event_too_large"


def test_first_update_may_be_the_session_itself() -> None:
    frame = {"type": "session.update", "event_id": "c1", "voice": "alba"}
    opened = decode_command(frame, first=True)
    assert opened == UpdateSession(event_id="c1", session={"voice": "alba"})
    assert decode_command({"type": "session.update"}, first=True) == UpdateSession(session={})
    assert refusal(frame).param == "session"


FIELD_REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "session.update", "session": []}, "bad_event", "session"),
    ({"type": "output_audio_buffer.clear", "response_id": 5}, "bad_event", "response_id"),
    ({"type": "response.create", "response": "now"}, "bad_event", "response"),
    ({"type": "response.cancel", "response_id": "x" * 513}, "bad_event", "response_id"),
    ({"type": "conversation.item.delete", "item_id": "x" * 513}, "missing_item_id", "item_id"),
    ({"type": "turn.signal", "event": "x" * 70_000}, "event_too_large", "event"),
    ({"type": "response.cancel", "response_id": []}, "bad_event", "response_id"),
    ({"type": "conversation.item.create"}, "bad_event", "item"),
    (
        {"type": "conversation.item.create", "item": {}, "previous_item_id": 1},
        "bad_event",
        "previous_item_id",
    ),
    ({"type": "conversation.item.delete"}, "missing_item_id", "item_id"),
    ({"type": "conversation.item.retrieve", "item_id": ""}, "missing_item_id", "item_id"),
    (
        {"type": "conversation.item.truncate", "audio_end_ms": 5},
        "missing_item_id",
        "item_id",
    ),
    ({"type": "input.text.append"}, "bad_event", "text"),
    ({"type": "turn.signal", "event": "x", "payload": 5}, "bad_event", "payload"),
    ({"type": "playback.ack"}, "bad_event", "played_ms"),
    ({"type": "playback.ack", "played_ms": "12"}, "bad_event", "played_ms"),
    ({"type": "playback.ack", "played_ms": 10**400}, "bad_event", "played_ms"),
    ({"type": "playback.ack", "played_ms": 1, "committed_ms": True}, "bad_event", "committed_ms"),
    ({"type": "playback.ack", "played_ms": 1, "truncate": "yes"}, "bad_event", "truncate"),
    ({"type": "playback.ack", "played_ms": 1, "item_id": 4}, "bad_event", "item_id"),
    ({"type": "session.close", "reason": 5}, "bad_event", "reason"),
    ({"type": "input_audio_buffer.commit", "final": 0}, "bad_event", "final"),
    (
        {"type": "input_audio_buffer.commit", "create_response": "no"},
        "bad_event",
        "create_response",
    ),
    ({"type": "session.resume", "resume_token": "t"}, "invalid_session_resume", "session_id"),
    ({"type": "session.resume", "session_id": "s"}, "invalid_session_resume", "resume_token"),
    (
        {
            "type": "session.resume",
            "session_id": "s",
            "resume_token": "t",
            "last_received_server_event_seq": -1,
        },
        "invalid_session_resume",
        "last_received_server_event_seq",
    ),
    ({"type": "session.event_ack"}, "invalid_event_ack", "server_event_seq"),
    (
        {"type": "session.event_ack", "server_event_seq": 1.5},
        "invalid_event_ack",
        "server_event_seq",
    ),
    (
        {"type": "session.event_ack", "server_event_seq": True},
        "invalid_event_ack",
        "server_event_seq",
    ),
]


@pytest.mark.parametrize(("frame", "code", "param"), FIELD_REFUSALS)
def test_wrong_field_is_named(frame: dict[str, Any], code: str, param: str) -> None:
    error = refusal(json.dumps({**frame, "event_id": "c9"}))
    assert (error.code, error.param, error.event_id) == (code, param, "c9")
    assert error.command == frame["type"]


@pytest.mark.parametrize("value", [-1, "12", None, True, [], 10**400])
def test_truncate_at_no_position_is_refused(value: Any) -> None:
    frame = {"type": "conversation.item.truncate", "item_id": "i", "audio_end_ms": value}
    error = refusal(json.dumps(frame))
    assert (error.code, error.param) == ("bad_event", "audio_end_ms")


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (2650, 2650), (9100.9, 9100)])
def test_truncate_position_becomes_whole_milliseconds(value: float, expected: int) -> None:
    command = decode_command(
        {"type": "conversation.item.truncate", "item_id": "i", "audio_end_ms": value}
    )
    assert command == TruncateItem(item_id="i", audio_end_ms=expected)


# appends


def append(**fields: Any) -> dict[str, Any]:
    return {"type": "input_audio_buffer.append", **fields}


def test_synonyms_of_an_append_mean_the_same() -> None:
    stated = append(audio="AAEC", format="pcmu", sample_rate_hz=8000, duration_ms=5)
    stated["format"] = "audio/pcmu"
    synonym = append(
        delta="AAEC", input_audio_format="G711_ULAW", sample_rate=8000, audio_duration_ms=5
    )
    assert decode_command(stated) == decode_command(synonym)


def test_plain_append_takes_the_same_meaning_on_both_ways() -> None:
    plain = append(audio="AAEC", event_id="c1")
    assert decode_command(json.dumps(plain)) == decode_command(json.dumps({**plain, "x": 1}))


def test_explicit_rate_goes_before_that_of_the_format_object() -> None:
    fields = {"format": {"format": "pcm", "rate": 16000}}
    first = decode_command(append(audio="AAE=", **fields))
    both = decode_command(append(audio="AAE=", sample_rate_hz=48000.0, **fields))
    assert isinstance(first, AppendAudio)
    assert isinstance(both, AppendAudio)
    assert (first.format, first.sample_rate_hz) == ("pcm16", 16000)
    assert both.sample_rate_hz == 48000


@pytest.mark.parametrize(
    "text", ["AA", "A A=", "AA-_", "AAE=\n", "é", "====", "A", "AAE=AAE=", 5, {}]
)
def test_audio_that_is_not_strict_base64_is_bad_audio(text: Any) -> None:
    error = refusal(json.dumps(append(audio=text, event_id="c1")))
    assert (error.code, error.param, error.event_id) == ("bad_audio", "audio", "c1")
    assert error.command == "input_audio_buffer.append"


@pytest.mark.parametrize("fields", [{}, {"audio": ""}, {"audio": None}, {"video_frames": []}])
def test_append_of_nothing_is_refused(fields: dict[str, Any]) -> None:
    error = refusal(json.dumps(append(**fields)))
    assert (error.code, error.param) == ("bad_event", "audio")


@pytest.mark.parametrize("rate", [7999, 192001, 8000.5, "8000", True, -1, 10**400])
def test_rate_out_of_range_is_refused(rate: Any) -> None:
    error = refusal(append(audio="AAE=", sample_rate_hz=rate))
    assert (error.code, error.param) == ("bad_event", "sample_rate_hz")
    assert refusal(append(audio="AAE=", sample_rate=rate)).param == "sample_rate_hz"


@pytest.mark.parametrize("name", ["opus", "wav", "", "audio/webm"])
def test_format_that_is_not_served_is_refused(name: str) -> None:
    for value in (name, {"type": name}):
        error = refusal(append(audio="AAE=", format=value))
        assert error.code == "unsupported_audio_format"


@pytest.mark.parametrize(
    "fields",
    [
        {"video_frames": "frame"},
        {"video_frames": [b64(PNG)] * 3},
        {"video_frames": [5]},
        {"video_frames": ["!!"]},
        {"video_frames": [b64(b"GIF89a")]},
        {"video_frames": [f"data:image/png;base64,{b64(PNG)}"]},
        {"video_frames": [b64(PNG + bytes(3_000_000))]},
        {"max_slice_nums": 2},
        {"max_slice_nums": True},
        {"max_slice_nums": "1"},
    ],
    ids=str,
)
def test_bad_video_frames_drop_the_whole_append(fields: dict[str, Any]) -> None:
    assert refusal(append(audio="AAE=", **fields)).code == "invalid_video_frames"


def test_largest_video_frame_is_taken() -> None:
    frame = b64(PNG + bytes(3_000_000 - len(PNG)))
    assert len(frame) == 4_000_000
    command = decode_command(append(video_frames=[frame]))
    assert isinstance(command, AppendAudio)
    assert len(command.video_frames[0]) == 3_000_000


def test_hint_of_the_wrong_type_says_nothing() -> None:
    command = decode_command(
        append(
            audio="AAE=",
            speech="yes",
            vad=5,
            speech_probability="high",
            overlap=7,
            force_listen="true",
            text=3,
            audio_start_ms=[],
        )
    )
    assert isinstance(command, AppendAudio)
    assert command.hints == AppendHints()


@pytest.mark.parametrize(
    "fields",
    [{"is_speech": "yes"}, {"duration_ms": -1}, {"audio_end_ms": "5"}, {"format": 5}],
    ids=str,
)
def test_typed_field_of_an_append_is_not_guessed(fields: dict[str, Any]) -> None:
    error = refusal(append(audio="AAE=", **fields))
    assert (error.code, error.param) == ("bad_event", next(iter(fields)))


# mailbox


def test_five_commands_share_the_turn_signal_channel() -> None:
    assert [command.type for command in SAMPLES if channel(command) == "turn.signal"] == [
        "session.update",
        "conversation.item.create",
        "conversation.item.delete",
        "conversation.item.truncate",
        "turn.signal",
    ]
    assert channel(RetrieveItem(item_id="i")) == "turn.signal"


def test_mailbox_form_keeps_the_client_id_under_its_own_name() -> None:
    assert mailbox_payload(CancelResponse(event_id="c1")) == {
        "type": "response.cancel",
        "realtime_event_id": "c1",
    }
    assert mailbox_payload(DeleteItem(event_id="c1", item_id="i")) == {
        "type": "turn.signal",
        "event": "conversation.item.delete",
        "payload": {"item_id": "i"},
        "realtime_event_id": "c1",
    }
    assert mailbox_payload(UpdateSession(session={"voice": "v"})) == {
        "type": "turn.signal",
        "event": "session.update",
        "payload": {"voice": "v"},
    }
    assert mailbox_payload(SignalTurn(event="user_started")) == {
        "type": "turn.signal",
        "event": "user_started",
        "payload": {},
    }


def test_openai_tier_decodes_only_its_own_commands() -> None:
    pure = realtime.decode_command(append(audio="AAE=", video_frames=[b64(PNG)]))
    assert type(pure) is tier1.AppendAudio
    assert type(realtime.decode_command({"type": "input_audio_buffer.commit"})) is tier1.Commit
    with pytest.raises(RealtimeProtocolError, match="unknown message type"):
        realtime.decode_command({"type": "barge_in"})
    with pytest.raises(RealtimeProtocolError, match="audio is missing"):
        realtime.decode_command(append())


def test_commands_are_values() -> None:
    command = decode_command(append(audio="AAE="))
    with pytest.raises(AttributeError):
        command.event_id = "x"  # type: ignore[misc]
    assert command == msgspec.structs.replace(command)
