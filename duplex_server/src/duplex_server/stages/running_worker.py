"""``RunningWorker``: a connected worker, whoever started it and wherever it runs."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from .worker_channel import WorkerChannel

__all__ = ["RunningWorker"]


class RunningWorker(ABC):
    """What is needed to speak to a worker, to end it, and to say how it ended.

    Attributes:
        exited: done when nothing of it is left here: no process, no stream.
        secret: what it expects in the first frame.
        channel: the stream to it; None: not connected yet.
    """

    exited: asyncio.Future[None]
    secret: str
    channel: WorkerChannel | None

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """Its process id while it lives; None where it is no process of this machine."""

    @property
    @abstractmethod
    def end_and_last_line(self) -> str:
        """How it ended and, where that is known, the last it printed."""

    @abstractmethod
    def describe_end(self) -> str:
        """How it ended, in words that clients may read."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once; ``exited`` follows. Safe at any time."""

    @abstractmethod
    def lost(self) -> None:
        """The stream to it has ended."""
