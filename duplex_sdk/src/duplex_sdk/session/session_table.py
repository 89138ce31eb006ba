"""Which sessions exist: admission, order of control operations, retained slots. Pure.

A session id is in one of six states. Every id that is not ``ABSENT`` holds one slot, from the
moment its open is accepted until its stage cleanup has succeeded: that is why the slots in use are
simply the entries of the table. Control operations of one session run one after another; those of
different sessions know nothing of each other.

The expiry of leases is decided by the session itself: it asks to be woken, ends, and the table
learns of it through ``SessionClosing`` and ``SessionEnded``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .inputs import CloseRequested, Fault, LeaseDetached, LeaseResumed, LeaseTouched
from .table_messages import (
    AbandonPreparation,
    AnswerCaller,
    CleanupTried,
    CloseAsked,
    ControlAnswered,
    ControlAsked,
    DetachAsked,
    DiscardSession,
    FeedSession,
    ForgetSession,
    OpenAsked,
    Operation,
    PreparationFailed,
    PrepareSession,
    ResumeAsked,
    RetryCleanup,
    SessionClosing,
    SessionEnded,
    SessionPrepared,
    ShutdownAsked,
    StartSession,
    TableEffect,
    TableInput,
    Ticked,
    TouchAsked,
    WakeTableAt,
)

__all__ = ["SessionTable", "SlotState", "TableCounts"]

LONGEST_RETRY_S = 60.0


class SlotState(Enum):
    """Where a session id stands."""

    ABSENT = "absent"
    ADMITTING = "admitting"
    OPEN = "open"
    OPEN_DETACHED = "open_detached"
    CLOSING = "closing"
    RETAINED = "retained"


ALIVE = frozenset({SlotState.OPEN, SlotState.OPEN_DETACHED})

OPERATIONS: dict[type[ControlAsked], Operation] = {
    OpenAsked: "open",
    CloseAsked: "close",
    ResumeAsked: "resume",
    DetachAsked: "detach",
    TouchAsked: "touch",
}


@dataclass(frozen=True, slots=True)
class TableCounts:
    """How many sessions are in which state; ``slots`` counts all of them."""

    slots: int
    admitting: int
    open: int
    detached: int
    closing: int
    retained: int


@dataclass(slots=True)
class _Entry:
    state: SlotState
    active: ControlAsked | None
    waiting: list[ControlAsked] = field(default_factory=list)
    generation: int = 0
    abandoned: bool = False
    request_ids: tuple[str, ...] = ()
    failures: int = 0
    retry_at: float | None = None


class SessionTable:
    """The authority on which sessions exist.

    Args:
        max_sessions: slots, above 0.
        retry_s: seconds before the first retry of a failed cleanup; it doubles with each failure,
            up to a minute.
        quarantine_after: free the slot after so many failed cleanups; None keeps it for ever.
    """

    def __init__(
        self, *, max_sessions: int, retry_s: float, quarantine_after: int | None = None
    ) -> None:
        self.max_sessions = max_sessions
        self._retry_s = retry_s
        self._quarantine_after = quarantine_after
        self._entries: dict[str, _Entry] = {}
        self._stopping = False
        self._effects: list[TableEffect] = []
        self._handlers: dict[type[Any], Callable[[Any, float], None]] = {
            OpenAsked: self._open_asked,
            CloseAsked: self._control_asked,
            ResumeAsked: self._control_asked,
            DetachAsked: self._control_asked,
            TouchAsked: self._control_asked,
            SessionPrepared: self._prepared,
            PreparationFailed: self._preparation_failed,
            ControlAnswered: self._control_answered,
            SessionClosing: self._closing,
            SessionEnded: self._ended,
            CleanupTried: self._cleanup_tried,
            Ticked: self._ticked,
            ShutdownAsked: self._shutdown_asked,
        }

    def handle(self, item: TableInput, now: float) -> tuple[TableEffect, ...]:
        """Take one input at ``now`` (seconds); return what must be done, in order."""
        self._effects = []
        self._handlers[type(item)](item, now)
        return tuple(self._effects)

    def state(self, session_id: str) -> SlotState:
        """Where the id stands."""
        entry = self._entries.get(session_id)
        return entry.state if entry else SlotState.ABSENT

    def refusal(self, session_id: str) -> Fault | None:
        """Why a command for this id can't be delivered; None: it can."""
        state = self.state(session_id)
        if state in ALIVE:
            return None
        if state is SlotState.CLOSING:
            return Fault("session_closed", "the session is closing")
        return Fault("unknown_session", "no such session")

    def counts(self) -> TableCounts:
        """Sessions by state."""
        states = [entry.state for entry in self._entries.values()]
        return TableCounts(
            slots=len(states),
            admitting=states.count(SlotState.ADMITTING),
            open=states.count(SlotState.OPEN),
            detached=states.count(SlotState.OPEN_DETACHED),
            closing=states.count(SlotState.CLOSING),
            retained=states.count(SlotState.RETAINED),
        )

    @property
    def empty(self) -> bool:
        """No session holds a slot."""
        return not self._entries

    # Open

    def _open_asked(self, item: OpenAsked, now: float) -> None:
        if item.session_id in self._entries:
            self._answer(item, fault=Fault("session_exists", "this session id is in use"))
        elif self._stopping:
            self._answer(item, fault=Fault("engine_dead", "the engine is stopping"))
        elif len(self._entries) >= self.max_sessions:
            message = f"all {self.max_sessions} session slots are taken"
            self._answer(item, fault=Fault("resource_exhausted", message), retryable=True)
        else:
            self._entries[item.session_id] = _Entry(SlotState.ADMITTING, active=item)
            self._effects.append(PrepareSession(item.session_id))

    def _prepared(self, item: SessionPrepared, now: float) -> None:
        entry = self._entries.get(item.session_id)
        if entry is None or entry.state is not SlotState.ADMITTING:
            self._effects.append(DiscardSession(item.session_id))
            return
        if entry.abandoned:
            self._effects.append(DiscardSession(item.session_id))
            self._admission_ended(item.session_id, entry, ABANDONED, retryable=False)
            return
        asked = entry.active
        assert isinstance(asked, OpenAsked)
        entry.state = SlotState.OPEN
        entry.active = None
        self._effects.append(StartSession(item.session_id, asked.by_update))
        self._answer(asked, generation=0)
        self._advance(item.session_id, entry)

    def _preparation_failed(self, item: PreparationFailed, now: float) -> None:
        entry = self._entries.get(item.session_id)
        if entry is None or entry.state is not SlotState.ADMITTING:
            return
        fault = ABANDONED if entry.abandoned else item.fault
        self._admission_ended(item.session_id, entry, fault, retryable=item.retryable)

    def _admission_ended(
        self, session_id: str, entry: _Entry, fault: Fault, *, retryable: bool
    ) -> None:
        del self._entries[session_id]
        self._effects.append(ForgetSession(session_id))
        assert entry.active is not None
        self._answer(entry.active, fault=fault, retryable=retryable)
        for control in entry.waiting:
            self._answer_unknown(control)

    # Control operations

    def _control_asked(self, item: ControlAsked, now: float) -> None:
        entry = self._entries.get(item.session_id)
        if entry is None or entry.state is SlotState.RETAINED:
            self._answer_unknown(item)
        elif entry.state is SlotState.ADMITTING and isinstance(item, CloseAsked):
            self._abandon(item.session_id, entry)
            self._answer(item)
        else:
            entry.waiting.append(item)
            self._advance(item.session_id, entry)

    def _abandon(self, session_id: str, entry: _Entry) -> None:
        if not entry.abandoned:
            entry.abandoned = True
            self._effects.append(AbandonPreparation(session_id))

    def _advance(self, session_id: str, entry: _Entry) -> None:
        while entry.active is None and entry.waiting:
            control = entry.waiting.pop(0)
            if entry.state in ALIVE:
                self._begin(session_id, entry, control)
            elif isinstance(control, CloseAsked):
                entry.active = control
            else:
                self._answer(control, fault=CLOSED)

    def _begin(self, session_id: str, entry: _Entry, control: ControlAsked) -> None:
        if (
            isinstance(control, TouchAsked)
            and control.expected_generation is not None
            and control.expected_generation != entry.generation
        ):
            self._answer(control, fault=CONFLICT)
            return
        entry.active = control
        self._effects.append(FeedSession(session_id, _session_input(control)))

    def _control_answered(self, item: ControlAnswered, now: float) -> None:
        entry = self._entries.get(item.session_id)
        if entry is None or entry.active is None or entry.active.control_id != item.control_id:
            return
        if entry.state is SlotState.ADMITTING:
            return
        control = entry.active
        entry.active = None
        if item.fault is None and entry.state in ALIVE:
            entry.generation = item.generation
            if isinstance(control, DetachAsked):
                entry.state = SlotState.OPEN_DETACHED
            elif isinstance(control, ResumeAsked):
                entry.state = SlotState.OPEN
        self._answer(
            control,
            generation=item.generation,
            public_session=item.public_session,
            fault=item.fault,
        )
        self._advance(item.session_id, entry)

    # The end of a session

    def _closing(self, item: SessionClosing, now: float) -> None:
        entry = self._entries.get(item.session_id)
        if entry is None or entry.state not in ALIVE:
            return
        entry.state = SlotState.CLOSING
        self._advance(item.session_id, entry)

    def _ended(self, item: SessionEnded, now: float) -> None:
        entry = self._entries.get(item.session_id)
        if entry is None or entry.state is SlotState.ADMITTING:
            return
        if entry.active is not None:
            self._answer_ended(entry.active)
            entry.active = None
        while entry.waiting:
            self._answer_ended(entry.waiting.pop(0))
        if item.released or self._stopping:
            self._forget(item.session_id)
        elif entry.state is not SlotState.RETAINED:
            entry.state = SlotState.RETAINED
            entry.request_ids = item.request_ids
            entry.retry_at = now + self._retry_s
            self._wake()

    def _answer_ended(self, control: ControlAsked) -> None:
        self._answer(control, fault=None if isinstance(control, CloseAsked) else CLOSED)

    def _cleanup_tried(self, item: CleanupTried, now: float) -> None:
        entry = self._entries.get(item.session_id)
        if entry is None or entry.state is not SlotState.RETAINED:
            return
        entry.failures += not item.ok
        limit = self._quarantine_after
        if item.ok or (limit is not None and entry.failures >= limit):
            self._forget(item.session_id)
            return
        delay: float = self._retry_s * 2 ** min(entry.failures, 16)
        entry.retry_at = now + min(delay, LONGEST_RETRY_S)
        self._wake()

    def _ticked(self, item: Ticked, now: float) -> None:
        for session_id, entry in self._entries.items():
            if entry.retry_at is not None and entry.retry_at <= now:
                entry.retry_at = None
                self._effects.append(RetryCleanup(session_id, entry.request_ids))
        self._wake()

    def _shutdown_asked(self, item: ShutdownAsked, now: float) -> None:
        self._stopping = True
        for session_id, entry in list(self._entries.items()):
            if entry.state is SlotState.ADMITTING:
                self._abandon(session_id, entry)
            elif entry.state in ALIVE:
                self._effects.append(FeedSession(session_id, CloseRequested("shutdown")))
            elif entry.state is SlotState.RETAINED:
                self._forget(session_id)

    # Parts

    def _forget(self, session_id: str) -> None:
        del self._entries[session_id]
        self._effects.append(ForgetSession(session_id))

    def _wake(self) -> None:
        due = [entry.retry_at for entry in self._entries.values() if entry.retry_at is not None]
        self._effects.append(WakeTableAt(min(due, default=None)))

    def _answer_unknown(self, control: ControlAsked) -> None:
        closes = isinstance(control, CloseAsked)
        self._answer(control, fault=None if closes else Fault("unknown_session", "no such session"))

    def _answer(
        self,
        control: ControlAsked,
        *,
        generation: int | None = None,
        public_session: dict[str, Any] | None = None,
        fault: Fault | None = None,
        retryable: bool = False,
    ) -> None:
        self._effects.append(
            AnswerCaller(
                control.control_id,
                control.session_id,
                OPERATIONS[type(control)],
                generation=generation,
                public_session=public_session,
                fault=fault,
                retryable=retryable,
            )
        )


ABANDONED = Fault("session_closed", "the open was abandoned")
CLOSED = Fault("session_closed", "the session is closing")
CONFLICT = Fault("session_resume_conflict", "the lease has moved on")


def _session_input(
    control: ControlAsked,
) -> LeaseTouched | LeaseDetached | LeaseResumed | CloseRequested:
    match control:
        case CloseAsked():
            return CloseRequested(control.reason)
        case ResumeAsked():
            return LeaseResumed(control.control_id, control.expected_generation)
        case DetachAsked():
            return LeaseDetached(control.control_id, control.expected_generation)
        case TouchAsked():
            return LeaseTouched(control.control_id, control.activity)
        case OpenAsked():
            raise AssertionError("an open is never handed to a session")
