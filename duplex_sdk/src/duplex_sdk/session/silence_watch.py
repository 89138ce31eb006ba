"""An answer that its stage leaves without an end: it must not stay open for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .append_queue import AppendQueue
    from .inputs import StagesIdle
    from .state import SessionState

__all__ = ["SilenceWatch"]


class SilenceWatch:
    """Watches an open response of which something came when all stages were idle.

    Idleness behind the newest unit ends a response. What a stage says after it, out of turn, would
    have nothing to end it: no news of idleness is due.

    Args:
        state: the session.
        appends: a unit to be answered brings such news.
        fed: silent units keep this model going when it answers unasked; their number is limited.
        ran_out: ends the response that nothing ended in time.

    Attributes:
        deadline: when to look again; None while an end is due by itself.
    """

    __slots__ = ("_appends", "_fed", "_idle_since", "_ran_out", "_state", "deadline")

    def __init__(
        self,
        state: SessionState,
        appends: AppendQueue,
        *,
        fed: bool,
        ran_out: Callable[[], None],
    ) -> None:
        self._state = state
        self._appends = appends
        self._fed = fed
        self._ran_out = ran_out
        self._idle_since: tuple[int, int] | None = None
        self.deadline: float | None = None

    def idle(self, item: StagesIdle) -> None:
        """All stages are idle behind this unit."""
        self._idle_since = (item.epoch, item.seq)
        self.deadline = None

    def heard(self) -> None:
        """A stage said something."""
        if self._idle_since is not None and self._unended():
            self.deadline = self._state.now + self._state.limits.stage_call_timeout_s
            self._state.deadline_moved = True

    def look(self) -> None:
        """See whether the time is over, and whether anybody still waits."""
        if self.deadline is None:
            return
        if not self._unended():
            self.deadline = None
        elif self._state.now >= self.deadline:
            self.deadline = None
            self._ran_out()

    def _unended(self) -> bool:
        state = self._state
        idle = self._idle_since == (state.epoch, state.sequence.seq)
        opened = state.open and state.response is not None
        if self._fed and state.auto_responds:
            return False
        return idle and opened and not self._appends.answering
