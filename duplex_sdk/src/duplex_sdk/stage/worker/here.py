"""Whether this process is a worker, for what must do there what it may not do in a server."""

from __future__ import annotations

__all__ = ["become_worker", "is_worker"]

_is_worker = False


def is_worker() -> bool:
    """Whether this process exists to run one replica of a stage, so that ending it ends no more."""
    return _is_worker


def become_worker() -> None:
    """Say that it does; for the worker's program alone."""
    global _is_worker
    _is_worker = True
