"""How the server is, in the words of ``/health``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from duplex_server.entrypoints import EngineHealth, StageHealth
    from duplex_server.stages import ReplicaStatus

__all__ = ["health_document", "health_status"]

_CRASH_LOOP = 3
"""Failures in a row after which a worker that is not ready counts as one that will not be."""

Status = Literal["ok", "degraded", "failed"]


def health_status(health: EngineHealth) -> tuple[Status, str | None]:
    """The status and, when it is not ``ok``, one sentence why.

    ``degraded`` still serves; ``failed`` does not: no engine, or a stage nobody works at.
    """
    if not health.alive:
        return "failed", health.reason or "the engine is not running"
    for stage in health.stages:
        if not stage.alive and _gave_up(stage):
            return "failed", f"stage {stage.id} keeps failing: {_reason(stage)}"
    for stage in health.stages:
        if any(map(_is_unwell, stage.replicas)):
            return "degraded", f"stage {stage.id}: {_reason(stage)}"
    return "ok", None


def health_document(health: EngineHealth, *, plugin: str, session_mode: str) -> dict[str, Any]:
    """The JSON of ``/health``."""
    status, reason = health_status(health)
    return {
        "status": status,
        "reason": reason,
        "plugin": plugin,
        "session_mode": session_mode,
        "sessions": {"open": health.open_sessions, "detached": health.detached_sessions},
        "slots": {"used": health.slots_used, "max": health.slots_max},
        "stages": [_stage(stage) for stage in health.stages],
        "units": {
            "late": health.units_late,
            "dropped": health.units_dropped,
            "lag_ms": int(health.lag_ms),
        },
    }


def _gave_up(stage: StageHealth) -> bool:
    return all(
        replica.state == "evicted" or replica.failures >= _CRASH_LOOP for replica in stage.replicas
    )


def _is_unwell(replica: ReplicaStatus) -> bool:
    """Not there, or there again after so many failures that nobody should count on it yet."""
    return replica.state != "ready" or replica.failures >= _CRASH_LOOP


def _reason(stage: StageHealth) -> str:
    return "; ".join(map(_condition, filter(_is_unwell, stage.replicas)))


def _condition(replica: ReplicaStatus) -> str:
    again = f" again after {replica.failures} failures" if replica.state == "ready" else ""
    return f"replica {replica.id} is {replica.state}{again}: {replica.reason}"


def _stage(stage: StageHealth) -> dict[str, Any]:
    return {
        "id": stage.id,
        "replicas": [
            {
                "id": replica.id,
                "state": replica.state,
                "restarts": replica.restarts,
                "reason": replica.reason or None,
                "device": None if replica.info is None else replica.info.device,
                "memory_bytes": replica.memory_bytes or None,
            }
            for replica in stage.replicas
        ],
    }
