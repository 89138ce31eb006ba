from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.session.overlap import OverlapSnapshot, decide_overlap, overlap_applies
from hypothesis import given
from hypothesis import strategies as st


def snapshot(**changes: Any) -> OverlapSnapshot:
    fields: dict[str, Any] = {
        "policy": "barge_in_on_sustained_speech",
        "supports_barge_in": True,
        "auto_responds": False,
        "is_speech": True,
        "duration_ms": 100,
        "overlap_speech_ms": 50,
        "short_ack_ms": 400,
        "barge_in_ms": 600,
    }
    return OverlapSnapshot(**(fields | changes))


AUTO = {"auto_responds": True}
ON_SPEECH = {"policy": "barge_in_on_speech"}
SILENT = {"is_speech": False}
MUTE_MODEL = {"supports_barge_in": False}

# conditions, then: action, reason, overlap_speech_ms, buffer, defer
ROWS = [
    pytest.param(
        MUTE_MODEL | {"overlap_hint": "interrupt"},
        ("listen", "barge_in_unsupported", 150, True, True),
        id="1-hint-unsupported",
    ),
    pytest.param(
        MUTE_MODEL | SILENT | {"force_barge_in": True},
        ("listen", "barge_in_unsupported", 50, False, True),
        id="1-force-unsupported-silent",
    ),
    *(
        pytest.param(
            {"overlap_hint": hint},
            ("barge_in", "client_overlap_action", 150, True, False),
            id=f"2-{hint}",
        )
        for hint in ("barge_in", "interrupt", "cancel")
    ),
    *(
        pytest.param(
            {"overlap_hint": hint, "duration_ms": 500},
            ("listen", "client_overlap_action", 0, hint == "listen", True),
            id=f"3-{hint}",
        )
        for hint in ("listen", "continue", "continue_output", "ack")
    ),
    pytest.param(
        {"overlap_hint": "listen", "duration_ms": 400},
        ("listen", "client_overlap_action", 0, False, True),
        id="3-listen-no-longer-than-short-ack",
    ),
    *(
        pytest.param(
            {"overlap_hint": hint},
            ("drop", "client_overlap_action", 0, False, False),
            id=f"4-{hint}",
        )
        for hint in ("drop", "ignore", "silence")
    ),
    pytest.param(
        SILENT | {"force_barge_in": True},
        ("barge_in", "client_force_barge_in", 50, True, False),
        id="5-force",
    ),
    pytest.param(
        AUTO | ON_SPEECH | {"vad_onset": True},
        ("barge_in", "server_vad_speech_started", 150, True, False),
        id="6-onset",
    ),
    pytest.param(
        AUTO | ON_SPEECH,
        ("barge_in", "barge_in_on_speech", 150, True, False),
        id="6-no-detector",
    ),
    pytest.param(
        AUTO | {"overlap_speech_ms": 500, "vad_onset": False},
        ("barge_in", "barge_in_on_speech", 600, True, False),
        id="6-sustained",
    ),
    pytest.param(
        AUTO | ON_SPEECH | {"vad_onset": False},
        ("listen", "auto_response_continuous", 150, True, False),
        id="7-same-utterance",
    ),
    pytest.param(
        AUTO | {"overlap_speech_ms": 499},
        ("listen", "auto_response_continuous", 599, True, False),
        id="7-not-sustained-yet",
    ),
    pytest.param(
        AUTO | ON_SPEECH | MUTE_MODEL,
        ("listen", "auto_response_continuous", 150, True, False),
        id="7-unsupported",
    ),
    pytest.param(
        AUTO | {"policy": "listen_only", "overlap_speech_ms": 9999},
        ("listen", "auto_response_continuous", 10_099, True, False),
        id="7-listen-only",
    ),
    pytest.param(
        {"force_listen": True},
        ("listen", "client_force_listen", 0, True, True),
        id="8-speech",
    ),
    pytest.param(
        SILENT | {"force_listen": True},
        ("listen", "client_force_listen", 0, False, True),
        id="8-silence",
    ),
    pytest.param(
        SILENT | {"has_frames": True, "frames_alone_allowed": True},
        ("listen", "vision_follow", 50, True, False),
        id="9-frames",
    ),
    pytest.param(
        SILENT | {"has_frames": True},
        ("drop", "silence_or_noise", 50, False, False),
        id="10-frames-need-audio",
    ),
    pytest.param(SILENT, ("drop", "silence_or_noise", 50, False, False), id="10-silence"),
    pytest.param(
        {"transcript": " Go on!"},
        ("listen", "short_ack_transcript", 0, False, True),
        id="11-english",
    ),
    pytest.param(
        {"transcript": "はい。"},
        ("listen", "short_ack_transcript", 0, False, True),
        id="11-japanese",
    ),
    pytest.param(
        {"transcript": "oui", "short_acks": frozenset({"oui"})},
        ("listen", "short_ack_transcript", 0, False, True),
        id="11-own-list",
    ),
    pytest.param(
        {"policy": "listen_only", "transcript": "yes but"},
        ("listen", "policy_listen_only", 150, True, True),
        id="12-listen-only",
    ),
    pytest.param(
        ON_SPEECH | MUTE_MODEL,
        ("listen", "barge_in_unsupported", 150, True, True),
        id="13-unsupported",
    ),
    pytest.param(
        ON_SPEECH | {"vad_onset": False},
        ("listen", "server_vad_utterance_active", 150, True, False),
        id="14-same-utterance",
    ),
    pytest.param(
        ON_SPEECH | {"vad_onset": True},
        ("barge_in", "server_vad_speech_started", 150, True, False),
        id="15-onset",
    ),
    pytest.param(
        ON_SPEECH,
        ("barge_in", "policy_barge_in_on_speech", 150, True, False),
        id="15-no-detector",
    ),
    pytest.param(
        {"overlap_speech_ms": 300},
        ("listen", "short_ack", 400, True, True),
        id="16-short-ack-at-its-limit",
    ),
    pytest.param(
        {"overlap_speech_ms": 301},
        ("listen", "accumulating_overlap_speech", 401, True, True),
        id="16-between",
    ),
    pytest.param(
        {"overlap_speech_ms": 499},
        ("listen", "accumulating_overlap_speech", 599, True, True),
        id="16-one-ms-short",
    ),
    pytest.param(
        {"overlap_speech_ms": 500},
        ("barge_in", "long_overlap_speech", 600, True, False),
        id="16-sustained",
    ),
    pytest.param(
        MUTE_MODEL | {"overlap_speech_ms": 500},
        ("listen", "barge_in_unsupported", 600, True, True),
        id="16-unsupported",
    ),
    pytest.param(
        {"policy": "a_plugin_of_its_own", "overlap_speech_ms": 500},
        ("barge_in", "long_overlap_speech", 600, True, False),
        id="16-own-policy",
    ),
]


@pytest.mark.parametrize(("conditions", "expected"), ROWS)
def test_row(conditions: dict[str, Any], expected: tuple[str, str, int, bool, bool]) -> None:
    decision = decide_overlap(snapshot(**conditions))
    assert (
        decision.action,
        decision.reason,
        decision.overlap_speech_ms,
        decision.buffer_audio,
        decision.defer_append,
    ) == expected


@pytest.mark.parametrize(
    ("conditions", "cancel_reason"),
    [
        (ON_SPEECH | {"vad_onset": True}, "turn_detected"),
        (ON_SPEECH, "barge_in"),
        ({"overlap_speech_ms": 900, "vad_onset": False}, "turn_detected"),
        ({"overlap_speech_ms": 900}, "barge_in"),
        (AUTO | {"overlap_speech_ms": 900, "vad_onset": False}, "turn_detected"),
        ({"overlap_hint": "barge_in", "vad_onset": True}, "barge_in"),
        ({"force_barge_in": True, "vad_onset": True}, "barge_in"),
    ],
)
def test_the_cancel_says_who_noticed(conditions: dict[str, Any], cancel_reason: str) -> None:
    assert decide_overlap(snapshot(**conditions)).cancel_reason == cancel_reason


def test_an_utterance_that_goes_on_is_only_listened_to() -> None:
    assert decide_overlap(snapshot(vad_onset=False, **ON_SPEECH)).force_listen


@pytest.mark.parametrize(
    ("conditions", "applies"),
    [
        ({}, True),
        ({"policy": "listen_only"}, True),
        (AUTO | {"policy": "listen_only"}, False),
        (AUTO | ON_SPEECH, True),
        (AUTO | {"policy": "listen_only", "overlap_hint": "drop"}, True),
        (AUTO | {"policy": "listen_only", "force_listen": True}, True),
    ],
)
def test_where_there_is_nothing_to_decide(conditions: dict[str, Any], applies: bool) -> None:
    assert overlap_applies(snapshot(**conditions)) is applies


def test_the_event_repeats_the_decision() -> None:
    deferred = decide_overlap(snapshot(policy="listen_only"))
    assert deferred.metadata() == {
        "action": "listen",
        "reason": "policy_listen_only",
        "duration_ms": 100,
        "overlap_speech_ms": 150,
        "buffer_audio": True,
        "defer_runtime_append": True,
    }


SNAPSHOTS = st.builds(
    snapshot,
    policy=st.sampled_from(["listen_only", "barge_in_on_speech", "barge_in_on_sustained_speech"]),
    supports_barge_in=st.booleans(),
    auto_responds=st.booleans(),
    is_speech=st.booleans(),
    duration_ms=st.integers(0, 1000),
    overlap_speech_ms=st.integers(0, 1000),
    overlap_hint=st.none() | st.sampled_from(["barge_in", "listen", "ack", "drop", "nonsense"]),
    force_barge_in=st.booleans(),
    force_listen=st.booleans(),
    vad_onset=st.none() | st.booleans(),
    transcript=st.none() | st.sampled_from(["ok", "stop it"]),
)


@given(SNAPSHOTS)
def test_a_model_that_cannot_be_interrupted_never_is(taken: OverlapSnapshot) -> None:
    if not taken.supports_barge_in:
        assert decide_overlap(taken).action != "barge_in"


@given(SNAPSHOTS)
def test_a_decision_is_consistent_and_repeatable(taken: OverlapSnapshot) -> None:
    decision = decide_overlap(taken)
    assert decide_overlap(taken) == decision
    assert (decision.cancel_reason is not None) == (decision.action == "barge_in")
    assert decision.overlap_speech_ms in (0, taken.overlap_speech_ms, taken.accumulated_ms)
    if decision.action == "drop":
        assert not decision.buffer_audio
    if decision.action == "barge_in":
        assert decision.buffer_audio
        assert not decision.defer_append
