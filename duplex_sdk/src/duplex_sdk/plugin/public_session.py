"""The session object as it is shown: GA names where OpenAI has one, our own beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from duplex_sdk.protocol.duplex import format_object

if TYPE_CHECKING:
    from .capabilities import DuplexCapabilities
    from .config import DuplexSessionConfig

__all__ = ["MAX_EXTRA_BYTES", "MAX_SESSION_BYTES", "client_fields", "session_size", "stage_fields"]

MAX_EXTRA_BYTES = 15 * 1024 * 1024
"""What one frame may bring of ``extra_body``, which updates add to, is the most there can be."""

MAX_SESSION_BYTES = 1024 * 1024 - 16 * 1024
"""Largest rendering of what a client said: the frame around it stays below 1 MiB."""

_WHEN_SET = (
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "temperature",
    "tracing",
    "metadata",
    "include",
    "prompt",
    "reasoning",
    "truncation",
    "initial_user_text",
)
_ALWAYS = (
    "use_tts_template",
    "idle_timeout_s",
    "auto_response",
    "overlap_policy",
    "overlap_short_ack_ms",
    "overlap_barge_in_ms",
    "overlap_silence_rms",
    "playback_commit_policy",
)

_SCALARS = frozenset({str, int, float, bool, type(None)})


def client_fields(config: DuplexSessionConfig, capabilities: DuplexCapabilities) -> dict[str, Any]:
    """Everything a client can set, as it is in force; neither knobs of the plugin nor a voice."""
    input_rate = config.input_defaults(capabilities).effective_rate
    shown = _shared_fields(config)
    shown["audio"]["input"]["format"] = format_object(config.input_format, input_rate)
    shown["audio"]["output"]["format"] = format_object(
        config.response_format, config.output_rate(capabilities)
    )
    shown["ref_audio"] = None if config.ref_audio is None else "set"
    if config.duplex_events is not None:
        events = config.duplex_events
        shown["duplex"] = {"events": "all" if events == ("all",) else list(events)}
    return shown


def stage_fields(config: DuplexSessionConfig, session_id: str) -> dict[str, Any]:
    """The same for a plugin: with its knobs, the reference voice and flat names, no formats."""
    return {
        "id": session_id,
        **_shared_fields(config),
        "voice": config.voice,
        "speed": config.speed,
        "ref_audio": config.ref_audio,
        "extra_body": dict(config.extra_body),
    }


def session_size(config: DuplexSessionConfig, capabilities: DuplexCapabilities) -> int:
    """Bytes of JSON of what a client can set."""
    return len(msgspec.json.encode(client_fields(config, capabilities)))


def _shared_fields(config: DuplexSessionConfig) -> dict[str, Any]:
    detection = config.announced_turn_detection or config.turn_detection
    shown: dict[str, Any] = {
        "type": "realtime",
        "model": config.model,
        "output_modalities": list(config.modalities),
        "instructions": config.instructions,
        "audio": {
            "input": {
                "transcription": config.transcription,
                "noise_reduction": config.noise_reduction,
                "turn_detection": None if detection is None else detection.to_realtime(),
            },
            "output": _output(config),
        },
        "max_output_tokens": "inf" if config.max_tokens is None else config.max_tokens,
    }
    shown |= {name: getattr(config, name) for name in _ALWAYS}
    values: Mapping[str, Any] = {name: getattr(config, name) for name in _WHEN_SET}
    shown |= {name: value for name, value in values.items() if value is not None}
    return _fresh(shown)


def _fresh(values: dict[str, Any]) -> dict[str, Any]:
    """Lists where we keep tuples, and nothing shared with the configuration that can change."""
    return {
        name: value if type(value) in _SCALARS else _copied(value) for name, value in values.items()
    }


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return _fresh(value)
    return msgspec.json.decode(msgspec.json.encode(value))


def _output(config: DuplexSessionConfig) -> dict[str, Any]:
    shown: dict[str, Any] = {"speed": 1.0 if config.speed is None else config.speed}
    if config.voice is not None:
        shown["voice"] = config.voice
    return shown
