"""Sessions whose prompt is still being worked off, slice by slice."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from .hosted_session import HostedSession

__all__ = ["PrefillQueue"]

# Slices run between steps: one is always allowed, more only while they are this cheap together, so
# that many sessions opening at once don't hold up those that already talk.
_BUDGET_S = 0.001


class PrefillQueue:
    """Who wants a slice of prefill, and when. Times are seconds of the host's clock."""

    def __init__(self) -> None:
        self._order = itertools.count()
        self._heap: list[tuple[float, int, HostedSession]] = []

    def __bool__(self) -> bool:
        """Whether anybody may be waiting."""
        return bool(self._heap)

    def put(self, session: HostedSession, at: float) -> None:
        """The session's next slice is due at this time."""
        heappush(self._heap, (at, next(self._order), session))

    def next_due(self) -> float | None:
        """When the next slice is due; None: nobody waits."""
        self._forget_ended()
        return self._heap[0][0] if self._heap else None

    def due(self, now: float, clock: Callable[[], float]) -> Iterator[HostedSession]:
        """Sessions whose slice is to be run in this pass, longest due first."""
        last = next(self._order)
        while True:
            self._forget_ended()
            if not self._heap or self._heap[0][0] > now or self._heap[0][1] > last:
                return
            yield heappop(self._heap)[2]
            if clock() - now > _BUDGET_S:
                return

    def _forget_ended(self) -> None:
        while self._heap and self._heap[0][2].phase != "prefill":
            heappop(self._heap)
