"""A model that cannot keep up: its lag is counted, told, and kept within a bound."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from duplex_sdk.audio import rms
from duplex_sdk.protocol.duplex import DuplexRawEvent

from .effects import TellLag
from .late_units import LateUnits, QueuedUnit, decide_late_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .append_queue import Append, AppendQueue
    from .state import SessionState

__all__ = ["LateFlow"]

NEWS_EVERY_S = 1.0


class LateFlow:
    """Watches the units that wait for stage 0 of one session.

    Nothing is late while the model is still being prepared: time counts from its first answer.
    Models without a period, which are given whole turns, are never late.

    Args:
        state: the session.
        appends: where units wait.
        end_session: closes the session for a reason.

    Attributes:
        looks_at: before this time there is nothing to give up and nothing to tell.
        lags: a lag was told, which is taken back as soon as nothing waits.
    """

    __slots__ = (
        "_appends",
        "_end_session",
        "_max_lag_ms",
        "_state",
        "_told",
        "_told_at",
        "_units",
        "_watches",
        "lags",
        "looks_at",
    )

    def __init__(
        self, state: SessionState, appends: AppendQueue, *, end_session: Callable[[str], None]
    ) -> None:
        self._state = state
        self._appends = appends
        self._end_session = end_session
        period_ms = state.pipeline.stages[0].period_ms
        if period_ms is None and state.native:
            period_ms = state.capabilities.chunk_period_ms
        self._watches = bool(period_ms)
        self.looks_at = state.now if period_ms else inf
        self._units = LateUnits((period_ms or 0) / 1000)
        self._max_lag_ms = state.limits.max_unit_lag_ms or max(500.0, 4.0 * (period_ms or 0))
        self._told = (0, 0)
        self._told_at = float("-inf")
        self.lags = False

    def accepted(self, append: Append) -> None:
        """The stage took a unit."""
        since = self._state.answers_since
        if self._watches and since is not None:
            queued_at = append.queued_at
            if self._units.answered(queued_at if queued_at > since else since, self._state.now):
                self.looks_at = min(self.looks_at, self._told_at + NEWS_EVERY_S)

    def look(self) -> None:
        """Give up what is too late, and tell of it."""
        state = self._state
        since = state.answers_since
        oldest = self._appends.oldest
        if since is None or oldest is None:
            self._catch_up()
            self._look_again(state.now)
            return
        queued_at = max(oldest.queued_at, since)
        lag_ms = (state.now - queued_at) * 1000
        overload = False
        if lag_ms <= self._max_lag_ms:
            # The usual case: nobody need listen to the units.
            self._units.lagged(lag_ms)
        else:
            overload = self._give_up(since)
        if state.now >= self._told_at + NEWS_EVERY_S and self._units.totals != self._told:
            self._tell()
        self._look_again(queued_at)
        if overload:
            self._end_session("overload")

    def _look_again(self, oldest_at: float) -> None:
        """When the unit queued then, or one behind it, is too late, or there is news to tell."""
        self.looks_at = oldest_at + self._max_lag_ms / 1000
        if self._units.totals != self._told:
            self.looks_at = min(self.looks_at, self._told_at + NEWS_EVERY_S)

    def _give_up(self, since: float) -> bool:
        """Give up what the policy says; returns whether the session must end."""
        state = self._state
        verdict = decide_late_units(
            self._waiting(self._appends.under_way, since),
            state.now,
            policy=state.limits.late_unit_policy,
            max_lag_ms=self._max_lag_ms,
        )
        self._units.observe(verdict)
        if verdict.drop:
            self._appends.give_up(frozenset(verdict.drop))
        return verdict.overload

    def _is_speech(self, append: Append) -> bool:
        """Without a detector its loudness tells."""
        piece = append.piece
        if piece.is_speech is not None or piece.audio is None:
            return piece.is_speech is not False
        return rms(piece.audio) >= self._state.config.overlap_silence_rms

    def _waiting(self, under_way: Sequence[Append], since: float) -> list[QueuedUnit]:
        return [
            QueuedUnit(
                key=number,
                queued_at=max(append.queued_at, since),
                is_speech=self._is_speech(append),
                # The first is with the stage already, or about to be.
                droppable=number > 0 and append.may_be_given_up,
            )
            for number, append in enumerate(under_way)
            if not append.given_up
        ]

    def _catch_up(self) -> None:
        if self.lags:
            self.lags = False
            self._state.do(TellLag(0, 0.0))

    def _tell(self) -> None:
        """What was late or given up since the last time."""
        state, counts = self._state, self._units.counts
        late, dropped = counts.late - self._told[0], counts.dropped - self._told[1]
        self._told, self._told_at = (counts.late, counts.dropped), state.now
        self.lags = True
        state.do(TellLag(dropped, counts.lag_ms))
        state.emit(
            DuplexRawEvent,
            name="units_late",
            event={
                "type": "units_late",
                "session_id": state.session_id,
                "epoch": state.epoch,
                "late": late,
                "dropped": dropped,
                "lag_ms": int(counts.lag_ms),
                "policy": state.limits.late_unit_policy,
            },
        )
