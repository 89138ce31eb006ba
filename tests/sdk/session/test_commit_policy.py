from __future__ import annotations

import pytest
from duplex_sdk.session.commit_policy import (
    CommitAction,
    CommitSnapshot,
    commit_wants_response,
    decide_commit_action,
    is_short_overlap,
)


@pytest.mark.parametrize("in_progress", [False, True])
@pytest.mark.parametrize("overlap_ms", [0, 900])
@pytest.mark.parametrize(
    ("speech", "action"),
    [(True, CommitAction.START_AUTO_RESPONSE), (False, CommitAction.COMMIT_ONLY)],
)
def test_an_auto_responding_session_answers_speech_and_marks_silence(
    in_progress: bool, overlap_ms: int, speech: bool, action: CommitAction
) -> None:
    taken = CommitSnapshot(
        auto_responds=True,
        speech_since_commit=speech,
        response_in_progress=in_progress,
        overlap_speech_ms=overlap_ms,
    )
    assert decide_commit_action(taken) is action


@pytest.mark.parametrize("speech", [False, True])
@pytest.mark.parametrize(
    ("in_progress", "overlap_ms", "gate_open", "action"),
    [
        (True, 1, False, CommitAction.DEFER_ACTIVE_RESPONSE),
        (True, 1, True, CommitAction.COMMIT_ONLY),
        (True, 0, False, CommitAction.COMMIT_ONLY),
        (False, 1, False, CommitAction.COMMIT_ONLY),
        (False, 0, False, CommitAction.COMMIT_ONLY),
    ],
)
def test_turn_mode_waits_behind_a_response_that_was_spoken_over(
    speech: bool, in_progress: bool, overlap_ms: int, gate_open: bool, action: CommitAction
) -> None:
    taken = CommitSnapshot(
        auto_responds=False,
        speech_since_commit=speech,
        response_in_progress=in_progress,
        overlap_speech_ms=overlap_ms,
        concurrent_turn_gate_open=gate_open,
    )
    assert decide_commit_action(taken) is action


def test_a_short_acknowledgement_ends_at_its_limit() -> None:
    assert is_short_overlap(400, 400)
    assert not is_short_overlap(401, 400)


@pytest.mark.parametrize(
    ("asked", "by_detector", "create", "auto", "wants"),
    [
        (None, False, True, False, False),
        (None, False, False, True, True),
        (True, False, False, False, True),
        (False, False, True, True, False),
        (None, True, True, False, True),
        (None, True, False, True, False),
    ],
)
def test_who_asks_for_an_answer(
    asked: bool | None, by_detector: bool, create: bool, auto: bool, wants: bool
) -> None:
    asks = commit_wants_response(
        asked=asked, by_detector=by_detector, create_response=create, auto_response=auto
    )
    assert asks is wants
