from __future__ import annotations

import json
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexCapabilities

WIRE_DEFAULTS: dict[str, Any] = {
    "implementation_level": "model_native_duplex",
    "supports_model_native_turn_policy": True,
    "supports_input_append": True,
    "supports_client_commit": True,
    "supports_external_turn_signal": True,
    "supports_barge_in": True,
    "supports_playback_ack": True,
    "supports_audio_truncate": False,
    "supports_session_resume": False,
    "supports_session_lease": False,
    "supports_multi_session": False,
    "supports_image_input": False,
    "supports_text_only_turn": False,
    "supports_tools": False,
    "supports_out_of_band_responses": False,
    "supports_concurrent_turn_requests": False,
    "required_input_modalities": ["audio"],
    "optional_input_modalities": ["video"],
    "input_modes": ["append_audio_chunk"],
    "signal_sources": ["client_event", "server_policy", "model_native"],
    "chunk_period_ms": 1000,
    "input_sample_rate_hz": 16_000,
    "output_sample_rate_hz": 24_000,
    "target_barge_in_latency_ms": 1000,
    "cancel_effect": "stops",
    "interrupt_policy": "barge_in_on_speech",
    "max_session_s": None,
}


def test_a_client_sees_the_keys_and_defaults_of_the_wire() -> None:
    assert DuplexCapabilities().as_dict() == WIRE_DEFAULTS


def test_what_a_client_sees_is_one_object_that_none_of_them_changes() -> None:
    shown = DuplexCapabilities.native().as_dict()
    assert DuplexCapabilities.native().as_dict() is shown
    assert DuplexCapabilities.native(max_session_s=240.0).as_dict() is not shown
    with pytest.raises(TypeError, match="cannot be changed"):
        shown["supports_barge_in"] = False


def test_what_a_client_sees_is_json() -> None:
    shown = DuplexCapabilities.native(max_session_s=240.0).as_dict()
    assert json.loads(json.dumps(shown)) == shown


def test_modalities_are_shown_sorted_and_once() -> None:
    shown = DuplexCapabilities(required_input_modalities=("video", "audio", "audio")).as_dict()
    assert shown["required_input_modalities"] == ["audio", "video"]


def test_a_turn_based_model_says_so_and_takes_changes() -> None:
    known = DuplexCapabilities.turn_based(supports_tools=True, chunk_period_ms=80)
    assert known.implementation_level == "turn_based_duplex"
    assert known.supports_tools
    assert known.unit_samples == 1_280


def test_a_native_model_has_units() -> None:
    assert DuplexCapabilities.native(chunk_period_ms=80).unit_samples == 1_280


def test_supported_names_are_those_a_descriptor_uses() -> None:
    known = DuplexCapabilities.turn_based(supports_tools=True, supports_chat_completions=True)
    assert {"tools", "session_resume", "barge_in"} <= known.supported
    assert not {"chat_completions", "core_resumable_request", "model_native_turn_policy"} & (
        known.supported
    )


@pytest.mark.parametrize(
    ("required", "optional", "audio", "video", "allowed"),
    [
        (("audio",), ("video",), True, False, True),
        (("audio",), ("video",), True, True, True),
        (("audio",), ("video",), False, True, False),
        (("audio",), ("video",), False, False, False),
        (("audio",), (), True, True, False),
        ((), ("audio", "video"), False, True, True),
        ((), ("audio",), False, True, False),
        (("audio", "video"), (), True, False, False),
        (("video",), ("audio",), False, True, True),
    ],
)
def test_an_append_carries_what_the_model_takes(
    required: tuple[str, ...], optional: tuple[str, ...], audio: bool, video: bool, allowed: bool
) -> None:
    known = DuplexCapabilities(
        required_input_modalities=required, optional_input_modalities=optional
    )
    assert (known.validate_append_modalities(audio, video) is None) == allowed


@pytest.mark.parametrize(
    "wrong",
    [
        {"required_input_modalities": ("smell",)},
        {"input_sample_rate_hz": 0},
        {"chunk_period_ms": 0},
        {"max_session_s": -1.0},
        {"text_turn_priming_units": -1},
    ],
)
def test_a_record_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=next(iter(wrong)) if "smell" not in str(wrong) else "smell"
    ):
        DuplexCapabilities(**wrong)
