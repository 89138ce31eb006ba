"""``HostThread``: the thread of a worker that computes, whatever computes there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from duplex_sdk.stage.host.unit_host import UnitHost

from .messages import Call

__all__ = ["HostThread"]


class HostThread(ABC):
    """Loads what a ``Load`` names and serves its sessions. Its methods are called from one other.

    What it loaded, or why it could not, and everything that comes of the calls goes to the engine
    by itself.
    """

    @abstractmethod
    def start(self) -> None:
        """Begin to load; returns at once."""

    @abstractmethod
    def post(self, call: Callable[[UnitHost], None]) -> None:
        """Have a call of the host made, after those posted before."""

    @abstractmethod
    def answer(self, call: Call) -> None:
        """Have a collective call made and answered."""

    @property
    @abstractmethod
    def busy_ms(self) -> float:
        """How long it has been waited for what is being computed; 0: nothing is."""

    @abstractmethod
    def end(self, grace_s: float) -> None:
        """Close all sessions and unload; returns when that is done, or the grace is over."""
