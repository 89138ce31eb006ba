"""``StageReplica``: one copy of a stage, wherever it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from duplex_sdk.stage import Json, StageInfo, StageSession, UnitRequest
from duplex_sdk.stage.host import HostResult

__all__ = ["Progress", "ReplicaSink", "StageReplica"]

Progress: TypeAlias = Callable[[float, str], None]


class ReplicaSink(ABC):
    """Where a replica delivers; called on the engine loop, never from inside a replica's method."""

    @abstractmethod
    def on_result(self, replica: StageReplica, result: HostResult) -> None:
        """Something left the replica's host."""

    @abstractmethod
    def on_dead(self, replica: StageReplica, reason: str) -> None:
        """The replica answers no more; said once, and nothing comes after it."""


class StageReplica(ABC):
    """One copy of a stage. All methods are called on the engine loop and none of them blocks.

    ``open``, ``units``, ``update``, ``cancel``, ``hold`` and ``close`` take effect in the order of
    the calls; what they lead to comes back through the sink.
    """

    @property
    def pid(self) -> int | None:
        """The process it runs in, while it has one of its own."""
        return None

    @property
    def memory_bytes(self) -> int | None:
        """What it was last seen to occupy, on its device if it told so; None: never measured."""
        return None

    @abstractmethod
    async def start(self, progress: Progress) -> StageInfo:
        """Load the model.

        Args:
            progress: called on the loop with 0..1 and what is being loaded.

        Raises:
            StageLoadError: the model cannot be loaded; the replica is then of no further use.
        """

    @abstractmethod
    def open(self, session: StageSession) -> None:
        """Make the model's state of a session."""

    @abstractmethod
    def units(self, units: Sequence[UnitRequest]) -> None:
        """Hand over units of open sessions."""

    @abstractmethod
    def update(self, session: StageSession) -> None:
        """A session's configuration, runtime or sampling changed."""

    @abstractmethod
    def cancel(self, session_id: str, epoch: int, heard_ms: float) -> None:
        """Stop what the session is doing; ``epoch`` begins."""

    @abstractmethod
    def hold(self, session_id: str, held: bool) -> None:
        """While held a session gets no ticks."""

    @abstractmethod
    def close(self, session_id: str) -> None:
        """End a session's state; answered in ``HostResult.closed``, also for an unknown id."""

    @abstractmethod
    async def call(self, method: str, arguments: Mapping[str, Json]) -> Json:
        """A collective call's part of this replica.

        Raises:
            StageCallError: the model refused it or failed.
        """

    @abstractmethod
    async def stop(self, grace_s: float) -> None:
        """Close every session, unload and end; wait no longer than ``grace_s`` seconds."""
