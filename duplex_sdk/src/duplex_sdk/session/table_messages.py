"""What ``SessionTable`` takes and what it asks for.

Inputs are in the past tense, effects in the imperative. The shell carries effects out in order;
``PrepareSession`` and ``RetryCleanup`` take time and have exactly one outcome each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .inputs import Fault

if TYPE_CHECKING:
    from .inputs import CloseRequested, LeaseDetached, LeaseResumed, LeaseTouched

__all__ = [
    "AbandonPreparation",
    "AnswerCaller",
    "CleanupTried",
    "CloseAsked",
    "ControlAnswered",
    "ControlAsked",
    "DetachAsked",
    "DiscardSession",
    "FeedSession",
    "ForgetSession",
    "OpenAsked",
    "Operation",
    "PreparationFailed",
    "PrepareSession",
    "ResumeAsked",
    "RetryCleanup",
    "SessionClosing",
    "SessionEnded",
    "SessionPrepared",
    "ShutdownAsked",
    "StartSession",
    "TableEffect",
    "TableInput",
    "Ticked",
    "TouchAsked",
    "WakeTableAt",
]

Operation = Literal["open", "close", "resume", "touch", "detach"]


class OpenAsked(msgspec.Struct, frozen=True):
    """Somebody wants a session; the id was allocated by the asker and is never reused."""

    control_id: str
    session_id: str
    by_update: bool = False


class CloseAsked(msgspec.Struct, frozen=True):
    """A session must end. Answered when it has ended; ok for a session nobody knows."""

    control_id: str
    session_id: str
    reason: str = "client_close"


class ResumeAsked(msgspec.Struct, frozen=True):
    """A new connection wants the session."""

    control_id: str
    session_id: str
    expected_generation: int


class DetachAsked(msgspec.Struct, frozen=True):
    """The connection that held ``expected_generation`` is gone."""

    control_id: str
    session_id: str
    expected_generation: int


class TouchAsked(msgspec.Struct, frozen=True):
    """Somebody shows interest; with a generation only while it is the current one."""

    control_id: str
    session_id: str
    activity: str
    expected_generation: int | None = None


ControlAsked = OpenAsked | CloseAsked | ResumeAsked | DetachAsked | TouchAsked


class SessionPrepared(msgspec.Struct, frozen=True):
    """Outcome of ``PrepareSession``: the session exists and waits for its start."""

    session_id: str


class PreparationFailed(msgspec.Struct, frozen=True):
    """Outcome of ``PrepareSession``: failed, too slow or called off; nothing is left."""

    session_id: str
    fault: Fault
    retryable: bool = False


class ControlAnswered(msgspec.Struct, frozen=True):
    """The session answered a lease operation."""

    control_id: str
    session_id: str
    generation: int = 0
    public_session: dict[str, Any] | None = None
    fault: Fault | None = None


class SessionClosing(msgspec.Struct, frozen=True):
    """The session has begun to end, for whatever reason."""

    session_id: str


class SessionEnded(msgspec.Struct, frozen=True):
    """The terminal event is out. Without ``released`` the stage cleanup is still owed."""

    session_id: str
    released: bool
    request_ids: tuple[str, ...] = ()


class CleanupTried(msgspec.Struct, frozen=True):
    """Outcome of ``RetryCleanup``."""

    session_id: str
    ok: bool


class Ticked(msgspec.Struct, frozen=True):
    """The time asked for by ``WakeTableAt`` has come, or somebody wants the table to look."""


class ShutdownAsked(msgspec.Struct, frozen=True):
    """The engine stops: every session ends, none is admitted."""


TableInput = (
    OpenAsked
    | CloseAsked
    | ResumeAsked
    | DetachAsked
    | TouchAsked
    | SessionPrepared
    | PreparationFailed
    | ControlAnswered
    | SessionClosing
    | SessionEnded
    | CleanupTried
    | Ticked
    | ShutdownAsked
)


class PrepareSession(msgspec.Struct, frozen=True):
    """Validate, ask the plugin, build the session. Its slot is taken already."""

    session_id: str


class AbandonPreparation(msgspec.Struct, frozen=True):
    """Call the preparation off; its outcome is still owed."""

    session_id: str


class DiscardSession(msgspec.Struct, frozen=True):
    """Drop a prepared session that nobody wants any more; it has neither spoken nor registered."""

    session_id: str


class StartSession(msgspec.Struct, frozen=True):
    """Give the session its first input; from now on commands reach it."""

    session_id: str
    by_update: bool


class FeedSession(msgspec.Struct, frozen=True):
    """Hand this input to the session, in the urgent lane."""

    session_id: str
    item: LeaseTouched | LeaseDetached | LeaseResumed | CloseRequested


class AnswerCaller(msgspec.Struct, frozen=True):
    """Answer a control operation; ok when there is no fault."""

    control_id: str
    session_id: str
    operation: Operation
    generation: int | None = None
    public_session: dict[str, Any] | None = None
    fault: Fault | None = None
    retryable: bool = False


class RetryCleanup(msgspec.Struct, frozen=True):
    """Try the stage cleanup of an ended session again."""

    session_id: str
    request_ids: tuple[str, ...]


class ForgetSession(msgspec.Struct, frozen=True):
    """The session is gone and its slot free: drop every reference to it."""

    session_id: str


class WakeTableAt(msgspec.Struct, frozen=True):
    """Send ``Ticked`` at this time; None: never. The last one counts."""

    at: float | None


TableEffect = (
    PrepareSession
    | AbandonPreparation
    | DiscardSession
    | StartSession
    | FeedSession
    | AnswerCaller
    | RetryCleanup
    | ForgetSession
    | WakeTableAt
)
