"""What the two in-process replicas share: a host, and an inbox of calls to it."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from duplex_sdk.stage import LoadContext, StageModel, StageSession, UnitRequest
from duplex_sdk.stage.device import free_memory_or_raise
from duplex_sdk.stage.host import StageHost
from duplex_sdk.stage.model_class import make_model

from .replica import ReplicaSink, StageReplica

__all__ = ["HostSettings", "InlineReplica"]


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What the host of an in-process replica needs besides the model.

    Attributes:
        model: ``"package.module:Class"`` of the ``StageModel``, or how to make one.
        context: how it is to be loaded.
        clock: seconds, monotonic, the same for the whole engine.
        output_rate: Hz that output audio must have; None: any.
        gather_ms: how long a step waits for more sessions.
        period_ms: a unit that ends later than this is late; None: never.
        memory_bytes: what the model needs on its device, checked before it is loaded.
    """

    model: str | Callable[[], StageModel[Any]]
    context: LoadContext
    clock: Callable[[], float]
    output_rate: int | None = None
    gather_ms: float = 0.0
    period_ms: float | None = None
    memory_bytes: int = 0

    def make_host(self) -> StageHost:
        """A host around a fresh model.

        Raises:
            StageLoadError: it does not fit into memory, or it cannot be made.
        """
        free_memory_or_raise(self.context.device, self.memory_bytes)
        return StageHost(
            make_model(self.model) if isinstance(self.model, str) else self.model(),
            clock=self.clock,
            output_rate=self.output_rate,
            max_batch=self.context.max_batch,
            gather_ms=self.gather_ms,
            period_ms=self.period_ms,
        )


class InlineReplica(StageReplica):
    """Calls are queued here and made by whoever drives the host, in order."""

    def __init__(self, settings: HostSettings, sink: ReplicaSink) -> None:
        """``settings``: what to run; ``sink``: where to deliver."""
        self._settings = settings
        self._sink = sink
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def open(self, session: StageSession) -> None:
        """See ``StageReplica``."""
        self._post(StageHost.open, session)

    def units(self, units: Sequence[UnitRequest]) -> None:
        """See ``StageReplica``."""
        self._post(StageHost.units, units)

    def update(self, session: StageSession) -> None:
        """See ``StageReplica``."""
        self._post(StageHost.update, session)

    def cancel(self, session_id: str, epoch: int, heard_ms: float) -> None:
        """See ``StageReplica``."""
        self._post(StageHost.cancel, session_id, epoch, heard_ms)

    def hold(self, session_id: str, held: bool) -> None:
        """See ``StageReplica``."""
        self._post(StageHost.hold, session_id, held)

    def close(self, session_id: str) -> None:
        """See ``StageReplica``."""
        self._post(StageHost.close, session_id)

    def _post(self, call: Callable[..., None], *arguments: Any) -> None:
        """Have ``call(host, *arguments)`` made by whoever drives the host."""
        self._inbox.append((call, arguments))
        self._wake()

    def _drain(self, host: StageHost) -> None:
        while self._inbox:
            call, arguments = self._inbox.popleft()
            call(host, *arguments)

    @abstractmethod
    def _wake(self) -> None:
        """Have the inbox drained soon."""
