"""Whether a worker still lives: asked once a second, counted in beats of this loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Heartbeat"]


class Heartbeat:
    """Pings, and says when too many went by without a word.

    It counts its own beats and reads no clock: after a pause of this process the worker gets its
    chance to be heard before it is given up.
    """

    def __init__(
        self,
        *,
        ping: Callable[[int], None],
        on_silent: Callable[[float], None],
        interval_s: float = 1.0,
    ) -> None:
        """Make a heartbeat that does not beat yet.

        Args:
            ping: sends one, given its number.
            on_silent: called with the seconds of silence; the heartbeat has stopped then.
            interval_s: between two beats.
        """
        self._ping = ping
        self._on_silent = on_silent
        self._interval_s = interval_s
        self._patience = 0
        self._missed = 0
        self._n = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, patience: int) -> None:
        """Begin to beat, or change how many beats may go by in silence."""
        self._patience = patience
        self._missed = 0
        if self._timer is None:
            self._beat()

    def heard(self) -> None:
        """The worker said something."""
        self._missed = 0

    def stop(self) -> None:
        """Beat no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        if self._missed >= self._patience:
            self._timer = None
            self._on_silent(self._missed * self._interval_s)
            return
        self._missed += 1
        self._n += 1
        self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._beat)
        self._ping(self._n)
