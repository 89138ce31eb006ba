"""Deployment limits."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.plugin import DuplexConfigError, DuplexSessionRuntimeConfig

MIB = 1024 * 1024


def test_defaults_are_the_documented_ones() -> None:
    limits = DuplexSessionRuntimeConfig()
    assert limits == DuplexSessionRuntimeConfig(
        max_sessions=None,
        idle_ttl_s=300,
        disconnect_grace_s=30,
        reaper_interval_s=5,
        resume_replay_ttl_s=60,
        resume_replay_max_bytes_per_session=8 * MIB,
        max_pending_input_bytes_per_session=16 * MIB,
        max_pending_turns_per_session=4,
        max_pending_commands_per_session=1024,
        max_pending_stage_output_bytes_per_session=8 * MIB,
        max_pending_output_bytes_per_session=2 * MIB,
        max_pending_output_events_per_session=512,
        overflow_policy="close_session",
        input_stall_timeout_s=30,
        output_stall_timeout_s=5,
        late_unit_policy="skip_silence",
        stage_call_timeout_s=10,
        close_timeout_s=5,
        server_vad_model_path=None,
        warmup_frames=0,
    )


def test_mapping_is_read() -> None:
    limits = DuplexSessionRuntimeConfig.from_mapping(
        {
            "max_sessions": 16,
            "idle_ttl_s": None,
            "warmup_frames": -1,
            "overflow_policy": "fail_response",
        }
    )
    assert (limits.max_sessions, limits.idle_ttl_s, limits.warmup_frames) == (16, None, -1)


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"max_session": 5}, "max_session"),
        ({"max_sessions": 0}, "max_sessions"),
        ({"max_sessions": "5"}, "max_sessions"),
        ({"max_sessions": 1.5}, "max_sessions"),
        ({"max_sessions": True}, "max_sessions"),
        ({"idle_ttl_s": 0}, "idle_ttl_s"),
        ({"disconnect_grace_s": None}, "disconnect_grace_s"),
        ({"disconnect_grace_s": float("inf")}, "disconnect_grace_s"),
        ({"disconnect_grace_s": float("nan")}, "disconnect_grace_s"),
        ({"reaper_interval_s": -1}, "reaper_interval_s"),
        ({"max_pending_commands_per_session": 64}, "max_pending_commands_per_session"),
        ({"overflow_policy": "drop"}, "overflow_policy"),
        ({"late_unit_policy": "wait"}, "late_unit_policy"),
        ({"server_vad_model_path": ""}, "server_vad_model_path"),
        ({"warmup_frames": "many"}, "warmup_frames"),
    ],
)
def test_bad_setting_is_named(settings: dict[str, Any], param: str) -> None:
    with pytest.raises(DuplexConfigError) as caught:
        DuplexSessionRuntimeConfig.from_mapping(settings)
    assert (caught.value.code, caught.value.param) == ("invalid_argument", param)
    assert param in caught.value.message


def test_figures_are_checked_however_they_are_given() -> None:
    with pytest.raises(ValueError, match="max_sessions"):
        DuplexSessionRuntimeConfig(max_sessions=-1)
    DuplexSessionRuntimeConfig(max_pending_commands_per_session=65)
