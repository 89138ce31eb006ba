"""Our error codes: the class each belongs to and whether trying again can help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from duplex_sdk.protocol.realtime.errors import ErrorType, RealtimeProtocolError

from .events import DuplexErrorDetails, ErrorEvent

__all__ = [
    "ERROR_CODES",
    "ErrorCode",
    "ErrorType",
    "RealtimeProtocolError",
    "error_details",
    "error_event",
    "error_type",
    "is_retryable",
]


class ErrorCode(msgspec.Struct, frozen=True):
    """What a code means for programs.

    Attributes:
        type: OpenAI's class of it.
        retryable: whether the same request can succeed later; None where it goes without saying.
    """

    type: ErrorType
    retryable: bool | None = None


_INVALID = ErrorCode("invalid_request_error")
_SERVER = ErrorCode("server_error")
_SERVER_RETRYABLE = ErrorCode("server_error", True)
_LIMIT = ErrorCode("rate_limit_error", True)
_LIMIT_FINAL = ErrorCode("rate_limit_error", False)

ERROR_CODES: Mapping[str, ErrorCode] = {
    # Transport and decoding
    "invalid_json": _INVALID,
    "bad_event": _INVALID,
    "unknown_event": _INVALID,
    "event_too_large": _INVALID,
    "config_timeout": _INVALID,
    "realtime_input_failed": _SERVER,
    "unsupported": _INVALID,
    # Open and configuration
    "invalid_session_config": _INVALID,
    "invalid_duplex_runtime_config": _INVALID,
    "invalid_argument": _INVALID,
    "resource_exhausted": _LIMIT,
    "session_exists": _INVALID,
    "engine_backpressure": _LIMIT,
    "engine_error": _SERVER,
    "engine_dead": _SERVER,
    "timeout": _SERVER_RETRYABLE,
    "failed_precondition": _SERVER,
    "not_found": _INVALID,
    "stale_fence": _SERVER,
    "unsupported_audio_format": _INVALID,
    "unsupported_turn_detection": _INVALID,
    "ref_audio_required": _INVALID,
    "unsupported_ref_audio_path": _INVALID,
    "unsupported_model_mode": _INVALID,
    "invalid_tools": _INVALID,
    "model_update_unsupported": _INVALID,
    "voice_update_unsupported": _INVALID,
    "voice_update_after_audio_unsupported": _INVALID,
    "persona_update_unsupported": _INVALID,
    "instructions_update_unsupported": _INVALID,
    "ref_audio_update_unsupported": _INVALID,
    "session_update_aborted": _SERVER,
    "server_vad_unavailable": _SERVER,
    # Identity and life
    "unknown_session": _INVALID,
    "session_closed": _INVALID,
    "internal_error": _SERVER,
    "runtime_touch_failed": _SERVER,
    # Input
    "bad_audio": _INVALID,
    "input_backpressure": _LIMIT,
    "input_audio_buffer_commit_empty": _INVALID,
    "commit_aborted": _SERVER,
    "invalid_video_frames": _INVALID,
    "invalid_image": _INVALID,
    "invalid_input_modality": _INVALID,
    "native_text_append_unsupported": _INVALID,
    # Runtime
    "runtime_input_failed": _SERVER,
    "runtime_append_failed": _SERVER,
    "runtime_append_task_failed": _SERVER,
    "runtime_signal_failed": _SERVER,
    "runtime_abort_failed": _SERVER,
    "runtime_data_plane_stream_failed": _SERVER,
    "runtime_data_plane_text_without_audio": _SERVER,
    "output_backpressure": _LIMIT_FINAL,
    # Responses
    "conversation_already_has_active_response": _INVALID,
    "response_cancel_not_active": _INVALID,
    "response_create_without_input": _INVALID,
    "text_only_turn_unsupported": _INVALID,
    "unsupported_native_response_options": _INVALID,
    "barge_in_unsupported": _INVALID,
    # Items, playback, tools
    "missing_item_id": _INVALID,
    "item_retrieve_invalid_item_id": _INVALID,
    "item_delete_invalid_item_id": _INVALID,
    "item_truncate_invalid_item_id": _INVALID,
    "playback_item_mismatch": _INVALID,
    "playback_item_not_found": _INVALID,
    "playback_ack_too_late": _INVALID,
    "invalid_function_call_output": _INVALID,
    "function_response_backlog": _LIMIT,
    # Resume
    "invalid_session_resume": _INVALID,
    "session_resume_expired": _INVALID,
    "unsupported_session_resume": _INVALID,
    "invalid_resume_token": _INVALID,
    "session_resume_conflict": _INVALID,
    "runtime_resume_failed": _SERVER,
    "invalid_event_ack": _INVALID,
}


def error_type(code: str) -> ErrorType:
    """OpenAI's class of a code; a code nobody knows is the client's fault."""
    return ERROR_CODES.get(code, _INVALID).type


def is_retryable(code: str) -> bool:
    """Whether the same request can succeed later."""
    return ERROR_CODES.get(code, _INVALID).retryable is True


def error_details(
    code: str,
    message: str,
    *,
    event_id: str | None = None,
    param: str | None = None,
    **extra: Any,
) -> DuplexErrorDetails:
    """The error object for a code, its class and retryability looked up."""
    known = ERROR_CODES.get(code, _INVALID)
    return DuplexErrorDetails(
        type=known.type,
        code=code,
        message=message,
        event_id=event_id,
        param=param,
        retryable=known.retryable,
        extra=extra,
    )


def error_event(
    code: str,
    message: str,
    *,
    new_id: str,
    event_id: str | None = None,
    param: str | None = None,
    command: str | None = None,
    session_id: str = "",
    epoch: int | None = None,
    **extra: Any,
) -> ErrorEvent:
    """The event that reports a failure.

    Args:
        code: a key of ``ERROR_CODES``; another one counts as the client's fault.
        message: words for a person; no audio, key or text of the user.
        new_id: the event's own, fresh id.
        event_id: the client's id of the message that failed.
        param: path of the field to blame.
        command: wire type of the command this refuses; None when it refuses none.
        session_id: the session, empty when there is none.
        epoch: the session's epoch.
        extra: further keys of the error object.
    """
    return ErrorEvent(
        event_id=new_id,
        session_id=session_id,
        epoch=epoch,
        command=command,
        error=error_details(code, message, event_id=event_id, param=param, **extra),
    )
