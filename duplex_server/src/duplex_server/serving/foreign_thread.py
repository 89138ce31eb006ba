"""A thread for a package's code, which must not be able to keep the server from ending."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

__all__ = ["ForeignThread", "end_all"]

_log = logging.getLogger(__name__)


class ForeignThread(ABC):
    """One package's thread. Who derives from it starts it when all is in place.

    Attributes:
        finishing: set once nothing more will come.
    """

    def __init__(self, name: str) -> None:
        """``name``: what logs call it."""
        self.finishing = threading.Event()
        self._name = name
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Let it work."""
        self._thread.start()

    @abstractmethod
    def _run(self) -> None:
        """Work until ``finishing`` is set and nothing is left; contain what the code raises."""

    def join(self, timeout_s: float) -> None:
        """Wait for it so long; it is left alone then."""
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _log.warning("%s did not end in time", self._name)


def end_all(threads: Sequence[ForeignThread], timeout_s: float) -> None:
    """Let all take what is left, and end. Blocks for ``timeout_s`` at most, for all together."""
    deadline = time.monotonic() + timeout_s
    for thread in threads:
        thread.finishing.set()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
