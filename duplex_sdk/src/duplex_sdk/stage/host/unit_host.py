"""``UnitHost``: whoever a worker's messages about sessions are for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from duplex_sdk.stage.types import StageSession, UnitRequest

__all__ = ["UnitHost"]


class UnitHost(ABC):
    """Serves the sessions of one replica; what comes of a call is told in a ``HostResult``.

    The calls take effect in their order and come from one thread. None of them raises.
    """

    @abstractmethod
    def open(self, session: StageSession) -> None:
        """Make the state of a session; one that is open already is updated."""

    @abstractmethod
    def units(self, units: Sequence[UnitRequest]) -> None:
        """Queue units; those of unknown or failed sessions and of older epochs are given back."""

    @abstractmethod
    def update(self, session: StageSession) -> None:
        """Remember a session's new configuration; it holds from the next unit on."""

    @abstractmethod
    def cancel(self, session_id: str, epoch: int, heard_ms: float) -> None:
        """Drop what the session has to do and stop what it does; once per epoch."""

    @abstractmethod
    def hold(self, session_id: str, held: bool) -> None:
        """While held a session gets no ticks."""

    @abstractmethod
    def close(self, session_id: str) -> None:
        """End a session; reported as closed, also when it was not open."""
