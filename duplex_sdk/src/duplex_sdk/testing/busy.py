"""Work that does nothing: a model that takes its time."""

from __future__ import annotations

import time

__all__ = ["busy"]


def busy(seconds: float) -> None:
    """Use so many seconds of this thread's CPU time."""
    if not seconds:
        return
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
