"""Who is ready, oldest first, and who will be when: two heaps with lazy removal."""

from __future__ import annotations

import itertools
from heapq import heappop, heappush

from .hosted_session import HostedSession

__all__ = ["Schedule"]


class Schedule:
    """The order in which sessions are stepped. Times are seconds of the host's clock.

    An entry that no longer matches its session is skipped when it comes up, so that leaving costs
    nothing and the cost of a unit does not grow with the number of idle sessions.
    """

    def __init__(self, *, max_batch: int, gather_s: float) -> None:
        self._max_batch = max_batch
        self._gather_s = gather_s
        self._order = itertools.count()
        self._ready: list[tuple[float, int, HostedSession]] = []
        self._ready_count = 0
        self._ticks: list[tuple[float, int, HostedSession]] = []

    def next_order(self) -> int:
        """A number greater than all before it."""
        return next(self._order)

    def arm(self, session: HostedSession, at: float) -> None:
        """Arm the session's one tick; an earlier one is forgotten."""
        session.tick_at = at
        heappush(self._ticks, (at, next(self._order), session))

    def refresh(self, session: HostedSession, now: float) -> None:
        """Line the session up if it has something to do, unless it stands in line already."""
        if session.phase != "live" or session.ready_key is not None:
            return
        if session.queue:
            head = session.queue[0]
            self._line_up(session, max(head.arrived, session.live_since), head.order)
        elif session.tick_at is not None and session.tick_is_due(now):
            self._line_up(session, session.tick_at, next(self._order))

    def leave(self, session: HostedSession) -> None:
        """Take the session out of the line."""
        if session.ready_key is not None:
            session.ready_key = None
            self._ready_count -= 1

    def wake_ticks(self, now: float) -> None:
        """Line up the sessions whose tick has come due."""
        while self._ticks and self._ticks[0][0] <= now:
            at, _, session = heappop(self._ticks)
            if session.tick_at == at:
                self.refresh(session, now)

    def take(self, now: float, session_count: int) -> list[HostedSession]:
        """The sessions of the next batch, oldest first; empty while more are waited for.

        Args:
            now: the time.
            session_count: how many sessions there are at all; when all are ready, none can join.
        """
        due = self._batch_due(session_count)
        if due is None or due > now:
            return []
        batch: list[HostedSession] = []
        while self._ready and len(batch) < self._max_batch:
            since, order, session = heappop(self._ready)
            if session.ready_key == (since, order):
                self.leave(session)
                batch.append(session)
        return batch

    def next_due(self, session_count: int) -> float | None:
        """When the next batch can be taken; None: not before something arrives."""
        if not self._ready and not self._ticks:
            return None
        while self._ticks and not _is_armed(self._ticks[0]):
            heappop(self._ticks)
        batch = self._batch_due(session_count)
        tick = self._ticks[0][0] if self._ticks else None
        if batch is None or tick is None:
            return tick if batch is None else batch
        return min(batch, tick)

    def _line_up(self, session: HostedSession, since: float, order: int) -> None:
        session.ready_key = (since, order)
        self._ready_count += 1
        heappush(self._ready, (since, order, session))

    def _batch_due(self, session_count: int) -> float | None:
        while self._ready and self._ready[0][2].ready_key != self._ready[0][:2]:
            heappop(self._ready)
        if not self._ready:
            return None
        oldest = self._ready[0][0]
        if self._ready_count >= min(self._max_batch, session_count):
            return oldest
        return oldest + self._gather_s


def _is_armed(entry: tuple[float, int, HostedSession]) -> bool:
    at, _, session = entry
    # A held tick keeps its time and is looked at again when the hold ends.
    return session.tick_at == at and not session.held
