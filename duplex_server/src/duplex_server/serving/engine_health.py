"""The snapshot of an engine, in the words of ``/health``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .health import ServerHealth, failed_health

if TYPE_CHECKING:
    from duplex_server.entrypoints import DuplexOmni

__all__ = ["engine_health"]


def engine_health(omni: DuplexOmni, *, session_mode: str) -> ServerHealth:
    """Take a snapshot; cheap, and safe on a dead engine."""
    return failed_health("", session_mode, "unknown")
