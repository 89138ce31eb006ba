"""Room that is promised before it is used, and given back exactly once."""

from __future__ import annotations

__all__ = ["ByteLedger", "Reservation", "TurnLedger"]


class Reservation:
    """A token for room in a ledger. It has one holder, who releases it; again is harmless.

    Attributes:
        amount: how much it holds; 0 once released. Only its own methods change it.
    """

    __slots__ = ("_ledger", "amount")

    def __init__(self, ledger: _Ledger, amount: int) -> None:
        self._ledger: _Ledger | None = ledger
        self.amount = amount

    @property
    def active(self) -> bool:
        """Whether it was not released yet."""
        return self._ledger is not None

    def release(self) -> int:
        """Give the room back.

        Returns:
            How much that was; 0 when it was released before.
        """
        if self._ledger is None:
            return 0
        freed, self.amount = self.amount, 0
        self._ledger._total -= freed
        self._ledger = None
        return freed

    def resize(self, amount: int) -> bool:
        """Hold so much instead. False, and unchanged, when more does not fit or it is released."""
        ledger = self._ledger
        more = (amount if amount > 0 else 0) - self.amount
        if ledger is None or ledger._total + more > ledger._limit:
            return False
        ledger._total += more
        self.amount += more
        return True

    def split(self, amount: int) -> Reservation:
        """Hand a part to a token of its own; at most what is held. The total does not change."""
        if self._ledger is None:
            raise ValueError("a released reservation cannot be split")
        taken = min(max(0, amount), self.amount)
        self.amount -= taken
        return Reservation(self._ledger, taken)

    def absorb(self, other: Reservation) -> None:
        """Take over what another token of the same ledger holds; that one is released."""
        if other._ledger is None:
            return
        if other is self or other._ledger is not self._ledger:
            raise ValueError("only another reservation of the same ledger can be absorbed")
        self.amount += other.amount
        other.amount = 0
        other._ledger = None


class _Ledger:
    """Room up to a limit. The total never exceeds it and never falls below 0."""

    __slots__ = ("_limit", "_total")

    def __init__(self, limit: int) -> None:
        if limit <= 0:
            raise ValueError("a ledger's limit must be above 0")
        self._limit = limit
        self._total = 0

    @property
    def limit(self) -> int:
        """The most that can be reserved."""
        return self._limit

    @property
    def total(self) -> int:
        """What is reserved now."""
        return self._total

    @property
    def room(self) -> int:
        """What can still be reserved."""
        return self._limit - self._total

    def reserve(self, amount: int) -> Reservation | None:
        """Reserve all of it or nothing; a negative amount counts as 0."""
        amount = max(0, amount)
        if self._total + amount > self._limit:
            return None
        self._total += amount
        return Reservation(self, amount)


class ByteLedger(_Ledger):
    """Input bytes of one session."""

    __slots__ = ()


class TurnLedger(_Ledger):
    """Commits of one session that were admitted and not carried out yet."""

    __slots__ = ()

    def reserve_turn(self) -> Reservation | None:
        """Reserve one turn, None when too many are pending."""
        return self.reserve(1)
