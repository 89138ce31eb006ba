"""How an engine is, in one look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duplex_server.engine.async_omni_engine import AsyncOmniEngine
    from duplex_server.engine.duplex_omni_engine import DuplexOmniEngine
    from duplex_server.stages import ReplicaStatus

__all__ = ["EngineHealth", "StageHealth", "health_of", "turn_health_of"]


@dataclass(frozen=True, slots=True)
class StageHealth:
    """One stage and its replicas."""

    id: str
    replicas: tuple[ReplicaStatus, ...]

    @property
    def alive(self) -> bool:
        """At least one replica takes work."""
        return any(replica.state == "ready" for replica in self.replicas)


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """A snapshot.

    Attributes:
        alive: the engine takes work.
        reason: why it does not, or empty.
        open_sessions: sessions with a connection.
        detached_sessions: sessions in their grace.
        slots_used: slots taken, those of ending sessions included.
        slots_max: slots there are.
        stages: in order.
        units_late: since the start.
        units_dropped: since the start.
        lag_ms: age of the oldest unit that no stage has taken, where a session lags.
        cleanup_retries: since the start.
        turn_requests: requests without a session that are under way.
    """

    alive: bool
    reason: str
    open_sessions: int = 0
    detached_sessions: int = 0
    slots_used: int = 0
    slots_max: int = 0
    stages: tuple[StageHealth, ...] = ()
    units_late: int = 0
    units_dropped: int = 0
    lag_ms: float = 0.0
    cleanup_retries: int = 0
    turn_requests: int = 0


def turn_health_of(engine: AsyncOmniEngine) -> EngineHealth:
    """Take a snapshot of an engine that hosts no sessions; from any thread."""
    stages = tuple(StageHealth(pool.config.id, pool.replicas) for pool in engine.pools)
    if not engine.alive:
        return EngineHealth(False, engine.death or "the engine is not running", stages=stages)
    return EngineHealth(
        alive=True,
        reason="",
        stages=stages,
        units_late=engine.figures.units_late,
        turn_requests=engine.turn_request_count,
    )


def health_of(engine: DuplexOmniEngine) -> EngineHealth:
    """Take a snapshot; from any thread."""
    manager = engine.manager
    stages = tuple(StageHealth(pool.config.id, pool.replicas) for pool in engine.pools)
    if manager is None or not engine.alive:
        reason = engine.death or "the engine is not running"
        return EngineHealth(False, reason, stages=stages)
    counts = manager.counts()
    return EngineHealth(
        alive=True,
        reason="",
        open_sessions=counts.open,
        detached_sessions=counts.detached,
        slots_used=counts.slots,
        slots_max=engine.limits.max_sessions or 0,
        stages=stages,
        units_late=engine.figures.units_late,
        units_dropped=engine.lateness.dropped,
        lag_ms=engine.lateness.lag_ms,
        cleanup_retries=manager.cleanup_retries,
        turn_requests=engine.turn_request_count,
    )
