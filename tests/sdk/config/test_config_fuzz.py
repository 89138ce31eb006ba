"""Whatever stands in a session object: a configuration or a named refusal, never a traceback."""

from __future__ import annotations

from typing import Any

import msgspec
from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexConfigError,
    DuplexSessionConfig,
    ResponseCreateOptions,
)
from duplex_sdk.protocol.duplex import ERROR_CODES
from hypothesis import given, settings
from hypothesis import strategies as st

CAPABILITIES = DuplexCapabilities.turn_based()
NAMES = [
    "type",
    "model",
    "output_modalities",
    "modalities",
    "instructions",
    "voice",
    "audio",
    "input",
    "output",
    "format",
    "rate",
    "transcription",
    "noise_reduction",
    "turn_detection",
    "input_audio_format",
    "output_audio_format",
    "response_format",
    "sample_rate_hz",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "temperature",
    "max_output_tokens",
    "speed",
    "tracing",
    "metadata",
    "include",
    "prompt",
    "ref_audio",
    "initial_user_text",
    "idle_timeout_s",
    "auto_response",
    "duplex",
    "events",
    "overlap_policy",
    "overlap_short_ack_ms",
    "overlap_silence_rms",
    "playback_commit_policy",
    "extra_body",
    "threshold",
    "silence_duration_ms",
    "create_response",
    "interrupt_response",
    "name",
    "parameters",
    "id",
    "conversation",
]
WORDS = [
    "realtime",
    "server_vad",
    "semantic_vad",
    "pcm16",
    "audio/pcmu",
    "audio",
    "text",
    "all",
    "auto",
    "function",
    "inf",
    "f",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, 0.5, 8000, 24000, 10**400, 1e308])
    | st.sampled_from(WORDS)
    | st.text(max_size=5)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
        | st.fixed_dictionaries({"input": inner, "output": inner})
    ),
    max_leaves=8,
)
SESSIONS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)


def opened(session: dict[str, Any], *, lenient: bool) -> DuplexSessionConfig | DuplexConfigError:
    try:
        return DuplexSessionConfig.from_realtime(
            session, capabilities=CAPABILITIES, lenient=lenient
        )
    except DuplexConfigError as refusal:
        return refusal


@settings(max_examples=400, deadline=None)
@given(session=SESSIONS, lenient=st.booleans())
def test_session_object_is_taken_or_refused(session: dict[str, Any], lenient: bool) -> None:
    result = opened(session, lenient=lenient)
    if isinstance(result, DuplexConfigError):
        assert result.code in ERROR_CODES
        assert result.param
    else:
        msgspec.json.encode(result.for_stages("duplex-1"))
        assert result.normalized() == result.normalized().normalized()


@settings(max_examples=300, deadline=None)
@given(first=SESSIONS, patch=SESSIONS, lenient=st.booleans())
def test_update_is_whole_or_nothing(
    first: dict[str, Any], patch: dict[str, Any], lenient: bool
) -> None:
    base = opened(first, lenient=lenient)
    if isinstance(base, DuplexConfigError):
        base = DuplexSessionConfig()
    before = msgspec.json.encode(base)
    settled: dict[str, Any] = {
        "audio_started": True,
        "context_locked": True,
        "capabilities": CAPABILITIES,
    }
    try:
        later = base.updated(patch, lenient=lenient, **settled)
    except DuplexConfigError as refusal:
        assert refusal.code in ERROR_CODES  # noqa: PT017 - either outcome is fine
    else:
        assert later.model == base.model
        assert (later.voice, later.instructions) == (base.voice, base.instructions)
        assert later.updated({}, lenient=lenient, **settled) == later
    assert msgspec.json.encode(base) == before


@settings(max_examples=200, deadline=None)
@given(response=SESSIONS, native=st.booleans(), lenient=st.booleans())
def test_response_options_are_taken_or_refused(
    response: dict[str, Any], native: bool, lenient: bool
) -> None:
    try:
        options = ResponseCreateOptions.from_realtime(response, native=native, lenient=lenient)
    except DuplexConfigError as refusal:
        assert refusal.code in ERROR_CODES  # noqa: PT017 - either outcome is fine
    else:
        options.apply_to(DuplexSessionConfig()).for_stages("duplex-1")
