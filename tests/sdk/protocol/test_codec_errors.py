"""Error codes, their classes, and the envelope they travel in."""

from __future__ import annotations

import pytest
from duplex_sdk.protocol.duplex import (
    ERROR_CODES,
    ErrorEvent,
    RealtimeProtocolError,
    decode_event,
    error_event,
    error_type,
    is_retryable,
)

SERVER = {
    "realtime_input_failed",
    "engine_error",
    "engine_dead",
    "timeout",
    "failed_precondition",
    "stale_fence",
    "session_update_aborted",
    "server_vad_unavailable",
    "internal_error",
    "runtime_touch_failed",
    "commit_aborted",
    "runtime_input_failed",
    "runtime_append_failed",
    "runtime_append_task_failed",
    "runtime_signal_failed",
    "runtime_abort_failed",
    "runtime_data_plane_stream_failed",
    "runtime_data_plane_text_without_audio",
    "runtime_resume_failed",
}
LIMIT = {
    "resource_exhausted",
    "engine_backpressure",
    "input_backpressure",
    "output_backpressure",
    "function_response_backlog",
}
INVALID = {
    "invalid_json",
    "bad_event",
    "unknown_event",
    "event_too_large",
    "config_timeout",
    "unsupported",
    "invalid_session_config",
    "invalid_duplex_runtime_config",
    "invalid_argument",
    "session_exists",
    "not_found",
    "unsupported_audio_format",
    "unsupported_turn_detection",
    "ref_audio_required",
    "unsupported_ref_audio_path",
    "unsupported_model_mode",
    "invalid_tools",
    "model_update_unsupported",
    "voice_update_unsupported",
    "voice_update_after_audio_unsupported",
    "persona_update_unsupported",
    "instructions_update_unsupported",
    "ref_audio_update_unsupported",
    "unknown_session",
    "session_closed",
    "bad_audio",
    "input_audio_buffer_commit_empty",
    "invalid_video_frames",
    "invalid_image",
    "invalid_input_modality",
    "native_text_append_unsupported",
    "conversation_already_has_active_response",
    "response_cancel_not_active",
    "response_create_without_input",
    "text_only_turn_unsupported",
    "unsupported_native_response_options",
    "barge_in_unsupported",
    "missing_item_id",
    "item_retrieve_invalid_item_id",
    "item_delete_invalid_item_id",
    "item_truncate_invalid_item_id",
    "playback_item_mismatch",
    "playback_item_not_found",
    "playback_ack_too_late",
    "invalid_function_call_output",
    "invalid_session_resume",
    "session_resume_expired",
    "unsupported_session_resume",
    "invalid_resume_token",
    "session_resume_conflict",
    "invalid_event_ack",
}


def test_table_holds_exactly_the_documented_codes() -> None:
    assert set(ERROR_CODES) == SERVER | LIMIT | INVALID
    assert len(ERROR_CODES) == len(SERVER) + len(LIMIT) + len(INVALID)


@pytest.mark.parametrize("code", sorted(ERROR_CODES))
def test_code_has_its_class(code: str) -> None:
    expected = (
        "server_error"
        if code in SERVER
        else "rate_limit_error"
        if code in LIMIT
        else "invalid_request_error"
    )
    assert error_type(code) == expected


def test_unknown_code_is_the_clients_fault() -> None:
    assert error_type("some_plugin_code") == "invalid_request_error"
    assert not is_retryable("some_plugin_code")


def test_codes_that_may_be_tried_again() -> None:
    assert {code for code in ERROR_CODES if is_retryable(code)} == LIMIT - {
        "output_backpressure"
    } | {"timeout"}


def test_envelope_says_what_is_known_and_nothing_else() -> None:
    bare = error_event("bad_event", "no", new_id="event_1", command="response.create")
    assert bare.to_realtime() == {
        "type": "error",
        "event_id": "event_1",
        "error": {"type": "invalid_request_error", "code": "bad_event", "message": "no"},
    }
    assert bare.command == "response.create"
    full = error_event(
        "input_backpressure",
        "full",
        new_id="event_2",
        event_id="c-17",
        param="audio",
        session_id="duplex-1",
        epoch=3,
        limit="turns",
    )
    assert (full.session_id, full.epoch) == ("duplex-1", 3)
    assert full.to_realtime()["error"] == {
        "type": "rate_limit_error",
        "code": "input_backpressure",
        "message": "full",
        "event_id": "c-17",
        "param": "audio",
        "retryable": True,
        "limit": "turns",
    }


def test_final_overflow_says_that_trying_again_is_no_use() -> None:
    event = error_event("output_backpressure", "full", new_id="event_1")
    assert event.to_realtime()["error"]["retryable"] is False


def test_envelope_survives_the_wire() -> None:
    event = error_event("timeout", "late", new_id="event_1", event_id="c1", seconds=5)
    read = decode_event(event.to_realtime())
    assert isinstance(read, ErrorEvent)
    assert read.error == event.error


def test_null_is_read_as_absent() -> None:
    error = {"type": "server_error", "code": "x", "message": "m", "param": None, "event_id": None}
    read = decode_event({"type": "error", "event_id": "event_1", "error": error})
    assert "param" not in read.to_realtime()["error"]


@pytest.mark.parametrize("error", [None, 5, {}, {"type": "x"}, {"type": 1, "message": "m"}])
def test_malformed_envelope_is_a_bad_event(error: object) -> None:
    with pytest.raises(RealtimeProtocolError) as caught:
        decode_event({"type": "error", "error": error})
    assert caught.value.code == "bad_event"


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "bad_event"),
        ({}, "bad_event"),
        ({"type": "conversation.created"}, "unknown_event"),
        ({"type": "session.update"}, "unknown_event"),
        ({"type": "response.output_audio.delta", "delta": "!"}, "bad_event"),
        ({"type": "duplex.notice"}, "bad_event"),
    ],
)
def test_client_side_refusals_have_names(payload: object, code: str) -> None:
    with pytest.raises(RealtimeProtocolError) as caught:
        decode_event(payload)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_notice_without_a_class_keeps_its_name() -> None:
    frame = {"type": "duplex.units_late", "event_id": "event_1", "event": {"late": 3}}
    assert decode_event(frame).to_realtime() == frame
