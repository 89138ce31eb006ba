"""The end of a session: by its client, by time, or by a failure; one terminal event, last.

The terminal comes after the attempt to release the stages, or after ``close_timeout_s`` of waiting
for it; a slot is free only once they are released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import SessionClosed, SessionExpired

from .effects import Ended, MarkClosing, ReleaseStages
from .state import Phase

if TYPE_CHECKING:
    from typing import Any

    from .append_queue import AppendQueue
    from .beside_flow import BesideFlow
    from .input_buffer import InputBuffer
    from .inputs import StagesReleased
    from .response_flow import ResponseFlow
    from .state import SessionState
    from .waiting_line import WaitingLine

__all__ = ["CloseFlow"]


class CloseFlow:
    """Ends one session."""

    __slots__ = (
        "_appends",
        "_beside",
        "_buffer",
        "_details",
        "_expired",
        "_line",
        "_reason",
        "_release_op",
        "_request_ids",
        "_responses",
        "_state",
        "deadline",
    )

    def __init__(
        self,
        state: SessionState,
        buffer: InputBuffer,
        appends: AppendQueue,
        line: WaitingLine,
        responses: ResponseFlow,
        beside: BesideFlow,
    ) -> None:
        self._state = state
        self._buffer = buffer
        self._appends = appends
        self._line = line
        self._responses = responses
        self._beside = beside
        self._reason = ""
        self._expired = False
        self._details: dict[str, Any] = {}
        self._release_op = 0
        self._request_ids: tuple[str, ...] = ()
        self.deadline: float | None = None

    def close(
        self, reason: str, *, expired: bool = False, details: dict[str, Any] | None = None
    ) -> None:
        """Begin to end; the first reason wins."""
        state = self._state
        if state.phase is not Phase.OPEN:
            return
        self._reason, self._expired, self._details = reason, expired, details or {}
        self._end_response()
        state.enter(Phase.CLOSING)
        state.lease.mark_terminal(reason)
        self._forget_input()
        state.do(MarkClosing(reason, expired))
        submitted, reserved = state.requests.ids()
        self._request_ids = submitted + reserved
        for request_id in submitted:
            state.close_stream(request_id)
        self._release_op = state.next_op()
        self.deadline = state.now + state.limits.close_timeout_s
        state.deadline_moved = True
        state.do(ReleaseStages(self._release_op, submitted, reserved))

    def _end_response(self) -> None:
        response = self._state.response
        if response is not None:
            item, committed = self._responses.settle(response, "cancelled")
            self._responses.cancelled(response, "session_closed", item=item, committed=committed)
        self._beside.close()

    def _forget_input(self) -> None:
        turn = self._state.turn_input
        self._line.discard()
        self._appends.discard()
        self._buffer.clear()
        turn.release_early()
        turn.release_retained()
        turn.begin_next()

    def released(self, item: StagesReleased) -> None:
        """The stages let go, or could not."""
        state = self._state
        if item.op != self._release_op:
            return
        released = item.fault is None
        if state.phase is Phase.CLOSING:
            self._tell()
            state.do(Ended(released=released, request_ids=self._request_ids))
        elif released:
            # The terminal did not wait for it; now the slot is free after all.
            state.do(Ended(released=True, request_ids=self._request_ids))

    def wait_over(self) -> None:
        """The stages take too long: the client learns of the end, the slot is kept."""
        state = self._state
        if state.phase is Phase.CLOSING and self.deadline is not None:
            if state.now < self.deadline:
                return
            self._tell()
            state.do(Ended(released=False, request_ids=self._request_ids))

    def _tell(self) -> None:
        state = self._state
        state.enter(Phase.CLOSED)
        self.deadline = None
        kind = "session.expired" if self._expired else "session.closed"
        state.emit(
            SessionExpired if self._expired else SessionClosed,
            reason=self._reason,
            event={"type": kind, "reason": self._reason, **self._details},
        )
