"""How the server is: what ``/health`` answers and what the scraped gauges are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["ReplicaHealth", "ServerHealth", "StageHealth", "failed_health"]

Status = Literal["ok", "degraded", "failed"]


@dataclass(frozen=True, slots=True)
class ReplicaHealth:
    """One worker: its state in words, how often it was restarted, and why it is not well."""

    id: str
    state: str
    restarts: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class StageHealth:
    """One stage and its workers."""

    id: str
    replicas: tuple[ReplicaHealth, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerHealth:
    """A snapshot.

    Attributes:
        status: ``degraded`` still serves; ``failed`` does not.
        reason: one sentence when not ``ok``.
        plugin: name of the plugin served.
        session_mode: ``duplex`` or ``turn``.
        open_sessions: sessions that live.
        detached_sessions: of those, the ones without a socket.
        used_slots: slots taken, also by sessions that are still being cleaned up.
        max_slots: sessions that may live at once.
        stages: in pipeline order.
        late_units: units that missed their period since the start.
        dropped_units: units dropped for lateness since the start.
        lag_ms: age of the oldest unit that no stage has taken.
    """

    status: Status
    reason: str | None
    plugin: str
    session_mode: str
    open_sessions: int = 0
    detached_sessions: int = 0
    used_slots: int = 0
    max_slots: int = 0
    stages: tuple[StageHealth, ...] = ()
    late_units: int = 0
    dropped_units: int = 0
    lag_ms: int = 0

    @property
    def http_status(self) -> int:
        """200 while the server serves, else 503."""
        return 503 if self.status == "failed" else 200

    def as_dict(self) -> dict[str, Any]:
        """The JSON of ``/health``."""
        return {
            "status": self.status,
            "reason": self.reason,
            "plugin": self.plugin,
            "session_mode": self.session_mode,
            "sessions": {"open": self.open_sessions, "detached": self.detached_sessions},
            "slots": {"used": self.used_slots, "max": self.max_slots},
            "stages": [_stage(stage) for stage in self.stages],
            "units": {
                "late": self.late_units,
                "dropped": self.dropped_units,
                "lag_ms": self.lag_ms,
            },
        }


def failed_health(plugin: str, session_mode: str, reason: str) -> ServerHealth:
    """The snapshot of a server that cannot serve."""
    return ServerHealth(status="failed", reason=reason, plugin=plugin, session_mode=session_mode)


def _stage(stage: StageHealth) -> dict[str, Any]:
    return {
        "id": stage.id,
        "replicas": [
            {
                "id": replica.id,
                "state": replica.state,
                "restarts": replica.restarts,
                "reason": replica.reason,
            }
            for replica in stage.replicas
        ],
    }
