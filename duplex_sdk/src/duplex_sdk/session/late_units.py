"""What happens to input that a stage does not take in time. Never silent growth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["LateCounts", "LateUnits", "LateVerdict", "QueuedUnit", "decide_late_units"]

LatePolicy = Literal["skip_silence", "drop_oldest", "fail"]


@dataclass(frozen=True, slots=True)
class QueuedUnit:
    """A unit that waits for its stage.

    Attributes:
        key: how the caller knows it.
        queued_at: since when it waits, seconds.
        is_speech: some of it is speech.
        droppable: False for one that must arrive: it ends a turn, or carries more than audio.
    """

    key: int
    queued_at: float
    is_speech: bool
    droppable: bool = True


@dataclass(frozen=True, slots=True)
class LateVerdict:
    """What to do about a lag.

    Attributes:
        lag_ms: age of the oldest unit before anything was dropped.
        drop: keys of units to release unsubmitted, oldest first.
        overload: the session must end.
    """

    lag_ms: float
    drop: tuple[int, ...] = ()
    overload: bool = False


def decide_late_units(
    waiting: Sequence[QueuedUnit], now: float, *, policy: LatePolicy, max_lag_ms: float
) -> LateVerdict:
    """Decide which of the waiting units are given up. Pure.

    Args:
        waiting: units that no stage has taken yet, oldest first.
        now: seconds.
        policy: ``skip_silence`` gives up units without speech, and any unit beyond twice the
            limit; ``drop_oldest`` any unit at once; ``fail`` the session.
        max_lag_ms: the limit.
    """
    if not waiting:
        return LateVerdict(0.0)
    lag_ms = _lag_ms(waiting[0], now)
    if lag_ms <= max_lag_ms:
        return LateVerdict(lag_ms)
    if policy == "fail":
        return LateVerdict(lag_ms, overload=True)
    any_unit_beyond = max_lag_ms if policy == "drop_oldest" else 2 * max_lag_ms
    drop: list[int] = []
    for unit in waiting:
        # Behind a unit that stays, only units that are themselves too old still count as lag.
        age_ms = _lag_ms(unit, now)
        if age_ms <= max_lag_ms:
            break
        if unit.droppable and (age_ms > any_unit_beyond or not unit.is_speech):
            drop.append(unit.key)
    return LateVerdict(lag_ms, tuple(drop))


def _lag_ms(unit: QueuedUnit, now: float) -> float:
    return max(0.0, now - unit.queued_at) * 1000


@dataclass(frozen=True, slots=True)
class LateCounts:
    """Lateness of one session so far.

    Attributes:
        late: units answered after their period.
        dropped: units given up.
        lag_ms: the last lag seen.
        worst_lag_ms: the largest.
    """

    late: int = 0
    dropped: int = 0
    lag_ms: float = 0.0
    worst_lag_ms: float = 0.0


class LateUnits:
    """Counts lateness, and says when there is something new to report.

    Args:
        period_s: time a stage has for one unit.
    """

    __slots__ = ("_dropped", "_lag_ms", "_late", "_period_s", "_reported", "_worst_lag_ms")

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._late = 0
        self._dropped = 0
        self._lag_ms = 0.0
        self._worst_lag_ms = 0.0
        self._reported = (0, 0)

    @property
    def counts(self) -> LateCounts:
        """The figures now."""
        return LateCounts(self._late, self._dropped, self._lag_ms, self._worst_lag_ms)

    @property
    def totals(self) -> tuple[int, int]:
        """How many units were late, and how many were given up."""
        return self._late, self._dropped

    def answered(self, submitted_at: float, now: float) -> bool:
        """A stage answered a unit.

        Returns:
            Whether it was late.
        """
        late = now - submitted_at > self._period_s
        self._late += late
        return late

    def observe(self, verdict: LateVerdict) -> None:
        """Count what a decision gave up."""
        self._dropped += len(verdict.drop)
        self.lagged(verdict.lag_ms)

    def lagged(self, lag_ms: float) -> None:
        """Note a lag about which nothing need be decided."""
        self._lag_ms = lag_ms
        if lag_ms > self._worst_lag_ms:
            self._worst_lag_ms = lag_ms

    def take_news(self) -> LateCounts | None:
        """The figures if more was late or dropped since the last call, else None."""
        if (self._late, self._dropped) == self._reported:
            return None
        self._reported = (self._late, self._dropped)
        return self.counts
