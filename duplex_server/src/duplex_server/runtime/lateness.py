"""How far the models of one engine are behind what was said to them, for people to see."""

from __future__ import annotations

__all__ = ["Lateness"]


class Lateness:
    """Counters over all sessions. Written on the loop, read anywhere.

    Attributes:
        dropped: units given up since the start.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self._lags: dict[str, float] = {}

    @property
    def lag_ms(self) -> float:
        """Age of the oldest unit that waits in a session which lags; 0 when none does."""
        # A copy in one step: the loop may change the dict while another thread looks.
        return max(tuple(self._lags.values()), default=0.0)

    def tell(self, session_id: str, dropped: int, lag_ms: float) -> None:
        """A session says where it stands; 0 ms: its model caught up."""
        self.dropped += dropped
        if lag_ms:
            self._lags[session_id] = lag_ms
        else:
            self._lags.pop(session_id, None)

    def forget(self, session_id: str) -> None:
        """The session is gone."""
        self._lags.pop(session_id, None)
