"""What lies between a session and its reader, wherever the reader is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duplex_sdk.protocol.duplex import DuplexEvent, SessionClosed

__all__ = ["DeliveryPort"]


class DeliveryPort(ABC):
    """Bounded, ordered delivery of one session's events to one reader.

    ``put`` and ``invalidate`` are the engine's, ``get`` and ``guard`` the reader's, ``close`` may
    be called by both.
    """

    __slots__ = ()

    @abstractmethod
    def put(self, event: DuplexEvent) -> bool:
        """Take an event in without waiting; False: closed, the event is ignored.

        Raises:
            DuplexOutputOverflowError: there is no room; nothing changed.
        """

    @abstractmethod
    def invalidate(self, response_id: str, through_epoch: int) -> float:
        """Take back queued audio of a response up to an epoch; returns how many ms of it."""

    @abstractmethod
    def close(self, terminal: SessionClosed | None = None) -> None:
        """Take in nothing more; what is queued stays readable, then the terminal. Once."""

    @abstractmethod
    async def get(self) -> DuplexEvent | None:
        """The next event, waiting for it; None for ever after the end.

        Raises:
            RuntimeError: somebody else waits already.
        """

    @abstractmethod
    def is_valid(self, event: DuplexEvent) -> bool:
        """Whether an event taken may still be delivered."""

    @abstractmethod
    def guard(self, event: DuplexEvent) -> AbstractContextManager[bool]:
        """``is_valid``, and it stays as it is inside the block; valid counts as delivered."""
