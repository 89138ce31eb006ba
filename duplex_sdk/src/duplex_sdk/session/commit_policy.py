"""What a commit leads to: sealing, an answer, or waiting behind the running response."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = [
    "CommitAction",
    "CommitSnapshot",
    "commit_wants_response",
    "decide_commit_action",
    "is_short_overlap",
]


class CommitAction(Enum):
    """What to do with the input that a commit seals."""

    START_AUTO_RESPONSE = "start_auto_response"
    """Seal the rest, make the item, give it to the stage as final under the current turn."""
    COMMIT_ONLY = "commit_only"
    """Make the item; auto-responding: only mark the turn, silent residue is cleared."""
    DEFER_ACTIVE_RESPONSE = "defer_active_response"
    """Keep it until the response in progress is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSnapshot:
    """All that the decision may depend on.

    Attributes:
        auto_responds: the session answers unasked.
        speech_since_commit: speech was taken in since the last commit.
        response_in_progress: a response is active, prepared, or still playing.
        overlap_speech_ms: speech heard over it.
        concurrent_turn_gate_open: the model can begin a turn while the old one drains.
    """

    auto_responds: bool
    speech_since_commit: bool
    response_in_progress: bool
    overlap_speech_ms: int
    concurrent_turn_gate_open: bool = False


def decide_commit_action(snapshot: CommitSnapshot) -> CommitAction:
    """Decide about a commit whose appends have settled. Pure."""
    if snapshot.auto_responds:
        if snapshot.speech_since_commit:
            return CommitAction.START_AUTO_RESPONSE
        return CommitAction.COMMIT_ONLY
    overlapped = snapshot.response_in_progress and snapshot.overlap_speech_ms > 0
    if overlapped and not snapshot.concurrent_turn_gate_open:
        return CommitAction.DEFER_ACTIVE_RESPONSE
    return CommitAction.COMMIT_ONLY


def is_short_overlap(overlap_speech_ms: int, short_ack_ms: int) -> bool:
    """Whether speech over a response was no more than a sign of attention: it is dropped."""
    return overlap_speech_ms <= short_ack_ms


def commit_wants_response(
    *,
    asked: bool | None,
    by_detector: bool,
    create_response: bool,
    auto_response: bool,
) -> bool:
    """Whether a commit asks for an answer.

    Args:
        asked: the command's own ``response_create``, None when it said nothing.
        by_detector: the VAD made the commit.
        create_response: the turn detection's setting of that name.
        auto_response: the session's setting of that name.
    """
    if by_detector:
        return create_response
    return auto_response if asked is None else asked
