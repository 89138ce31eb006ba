"""A deadline that moves with every frame, without a timer per frame."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["IdleWatch"]


class IdleWatch:
    """Calls ``on_idle`` once when nothing was touched for ``timeout_s()`` seconds.

    ``touch`` costs one clock reading: the timer that fires too early is armed anew for the rest.
    The timeout may change: it is asked when the timer fires. Belongs to the running loop.
    """

    def __init__(self, timeout_s: Callable[[], float], on_idle: Callable[[], object]) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s
        self._on_idle = on_idle
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(timeout_s(), self._check)

    def touch(self) -> None:
        """A frame came."""
        self._last = self._loop.time()

    def stop(self) -> None:
        """Never fire any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        left = self._last + self._timeout_s() - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check)
            return
        self._timer = None
        self._on_idle()
