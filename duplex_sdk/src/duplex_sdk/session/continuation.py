"""When a silent unit keeps a speaking model supplied while its client is quiet."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Continuation", "ContinuationScheduler"]

JITTER_S = 0.2
"""A client that streams with so much jitter is not quiet: a unit put in between would delay its
speech for good."""

AUTO_BUDGET = 64
TURN_BUDGET = 8


@dataclass(frozen=True, slots=True)
class Continuation:
    """A silent unit that is due.

    Attributes:
        owner: ``response:<id>`` or ``model-turn:<n>``.
        number: which one of this owner, from 1.
        force_listen: the budget ends with it: the model must only listen.
    """

    owner: str
    number: int
    force_listen: bool


class ContinuationScheduler:
    """Holds at most one pending silent unit. Times are seconds of the session's clock.

    Args:
        period_s: length of one unit.
        auto_responds: see there.

    Attributes:
        auto_responds: the session answers unasked: more units per owner, the last one listens.
        deadline: when the pending unit is due, None without one.
        owner: for whom a unit is pending or was given last.
    """

    __slots__ = (
        "_anchor",
        "_last_deadline",
        "_period_s",
        "_units",
        "auto_responds",
        "deadline",
        "owner",
    )

    def __init__(self, period_s: float, *, auto_responds: bool) -> None:
        if period_s <= 0:
            raise ValueError("a continuation needs a period above 0")
        self._period_s = period_s
        self.auto_responds = auto_responds
        self._anchor: float | None = None
        self.owner: str | None = None
        self._units = 0
        self._last_deadline: float | None = None
        self.deadline: float | None = None

    @property
    def units(self) -> int:
        """Units given to this owner."""
        return self._units

    @property
    def exhausted(self) -> bool:
        """Whether this owner has had all its units."""
        return self._units >= (AUTO_BUDGET if self.auto_responds else TURN_BUDGET)

    def accepted(self, now: float, *, continuation: bool = False) -> None:
        """A stage took a unit.

        Args:
            now: when.
            continuation: it was one of ours. Real input starts the count of time anew and takes
                the place of a pending unit.
        """
        self._anchor = now
        if not continuation:
            self._last_deadline = None
            self.deadline = None

    def schedule(self, owner: str, now: float) -> bool:
        """Ask for the next silent unit; a pending one stays as it is.

        Returns:
            False when the owner's budget is used up: its response must end.
        """
        if owner != self.owner:
            self.owner = owner
            self._units = 0
            self.deadline = None
        if self.exhausted:
            self.deadline = None
            return False
        if self.deadline is None:
            self.deadline = self._next_deadline(now)
        return True

    def rebind(self, owner: str) -> None:
        """The response opened during the wait: the pending unit, and the count, are now its."""
        if self.owner is not None:
            self.owner = owner

    def take_due(self, now: float) -> Continuation | None:
        """The pending unit if its time has come; it then is no longer pending."""
        if self.deadline is None or self.owner is None or now < self.deadline:
            return None
        late = now - self.deadline > self._period_s
        self._last_deadline = now if late else self.deadline
        self.deadline = None
        self._units += 1
        last = self.auto_responds and self.exhausted
        return Continuation(self.owner, self._units, force_listen=last)

    def supersede(self) -> None:
        """Real input is there: the pending unit is not wanted, its owner stays."""
        self.deadline = None

    def clear(self) -> None:
        """The owner is gone (its epoch, turn or response ended)."""
        self.owner = None
        self._units = 0
        self._last_deadline = None
        self.deadline = None

    def _next_deadline(self, now: float) -> float:
        if self._last_deadline is not None:
            # Counted from the last deadline, not from its firing: no drift.
            following = self._last_deadline + self._period_s
            return now if now - following > self._period_s else following
        anchor = now if self._anchor is None else self._anchor
        return anchor + self._period_s + JITTER_S
