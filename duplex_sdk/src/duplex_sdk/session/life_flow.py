"""The life of a session by the clock and by its lease: start, interest, detach, resume, expiry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from duplex_sdk.protocol.duplex import DuplexRawEvent, SessionCreated, SessionUpdated

from .effects import AnswerControl, RegisterRequest, WakeAt
from .inputs import (
    CloseRequested,
    Fault,
    LeaseDetached,
    LeaseResumed,
    LeaseTouched,
    Started,
    TimerFired,
)
from .lease import LeaseConflictError, LeaseEndedError

if TYPE_CHECKING:
    from .flows import Flows
    from .state import SessionState

__all__ = ["LifeFlow"]


NOTICE_S = 30.0
"""A client is told so long before its session's time is over, or half-way of a shorter one."""


class LifeFlow:
    """Starts a session, keeps its lease and its one timer."""

    __slots__ = ("_armed", "_flows", "_notice_at", "_state")

    def __init__(self, state: SessionState, flows: Flows) -> None:
        self._state = state
        self._flows = flows
        self._armed: float | None = None
        self._notice_at = _notice_at(state)

    def started(self, item: Started) -> None:
        """The session may speak: its first events, and the request its input will go by."""
        state = self._state
        state.emit(SessionCreated, session=state.public_session())
        if item.by_update:
            state.emit(SessionUpdated, session=state.public_session())
        if state.config.initial_user_text:
            parts = [{"type": "text", "text": state.config.initial_user_text}]
            state.history.add_message(state.ids.item(), "user", parts)
        context = self._flows.appends.contexts.current()
        state.requests.register(context.request_id, 0, state.config_generation)
        state.do(RegisterRequest(context))
        if state.config.turn_detection is not None:
            self._flows.updates.configure_input()

    def close_requested(self, item: CloseRequested) -> None:
        """Its owner or the engine ends it."""
        self._flows.closing.close(item.reason, expired=item.expired)

    def touched(self, item: LeaseTouched) -> None:
        """Somebody shows interest."""
        self._lease(
            item.control_id,
            lambda lease, now: lease.touch(now, item.activity),
        )

    def detached(self, item: LeaseDetached) -> None:
        """The socket is gone; the session goes on for a while."""
        self._lease(
            item.control_id,
            lambda lease, now: lease.detach(now, expected_generation=item.expected_generation),
        )

    def resumed(self, item: LeaseResumed) -> None:
        """A new socket takes the session, if it has seen the newest lease."""
        self._lease(
            item.control_id,
            lambda lease, now: lease.resume(now, item.expected_generation, item.control_id),
        )

    def _lease(self, control_id: str, operate: Callable[[Any, float], Any]) -> None:
        state = self._state
        state.deadline_moved = True
        fault = None
        try:
            operate(state.lease, state.now)
        except LeaseConflictError as error:
            fault = Fault("session_resume_conflict", str(error))
        except LeaseEndedError as error:
            fault = Fault("session_closed", str(error))
        shown = state.public_session() if fault is None else None
        state.do(AnswerControl(control_id, state.lease.generation, shown, fault))

    # the timer

    def arm(self) -> None:
        """One timer per session; one that fires early is armed again, so it never moves back."""
        # Interest only puts the lease's end off: until the timer fires it need not be asked again.
        deadline = self._state.lease.next_deadline()
        for at in (
            self._flows.closing.deadline,
            self._held_start_until(),
            self._flows.continuations.deadline,
            self._flows.outputs.silence_watch.deadline,
            self._notice_at if self._state.open else None,
            self._work_over(),
        ):
            if at is not None and (deadline is None or at < deadline):
                deadline = at
        if deadline is not None and (self._armed is None or deadline < self._armed):
            self._armed = deadline
            self._state.do(WakeAt(deadline))
        # Without a timer the end of any work may bring one: the idle session's.
        self._state.deadline_moved = self._armed is None

    def _work_over(self) -> float | None:
        """By when the work has ended that holds an idle session's end off; it may end unnoticed."""
        state = self._state
        idle_ttl_s = state.limits.idle_ttl_s
        if idle_ttl_s is None or not state.lease.working:
            return None
        idle_over = state.lease.last_activity + idle_ttl_s
        return max(idle_over, state.now + state.limits.stage_call_timeout_s)

    def _tell_expiring(self) -> None:
        """Once, a while before the session has lasted as long as its model can."""
        state = self._state
        longest = state.capabilities.max_session_s
        if longest is None or self._notice_at is None or state.now < self._notice_at:
            return
        self._notice_at = None
        remaining_s = max(0.0, state.opened_at + longest - state.now)
        state.emit(
            DuplexRawEvent,
            name="session.expiring",
            event={
                "type": "session.expiring",
                "session_id": state.session_id,
                "epoch": state.epoch,
                "reason": "session_length_reached",
                "remaining_ms": int(remaining_s * 1000),
            },
        )

    def _held_start_until(self) -> float | None:
        state = self._state
        if state.turn_input.held_start is None or state.response is not None:
            return None
        return state.playback.plays_until(server_vad=state.has_detector)

    def timer_fired(self, item: TimerFired) -> None:
        """See what is due; nothing may be, when the deadline has moved on."""
        del item
        state = self._state
        self._armed = None
        state.deadline_moved = True
        self._flows.closing.wait_over()
        if not state.open:
            return
        self._tell_expiring()
        reason = state.lease.expiry(state.now)
        if reason is not None:
            self._flows.closing.close(reason, expired=True)


def _notice_at(state: SessionState) -> float | None:
    longest = state.capabilities.max_session_s
    return None if longest is None else state.opened_at + max(longest - NOTICE_S, longest / 2)
