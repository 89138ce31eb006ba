"""How much memory this process occupies; asked once a second, so it must be cheap."""

from __future__ import annotations

import os
import sys

__all__ = ["device_memory", "resident_bytes"]


def resident_bytes() -> int:
    """Resident memory in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def device_memory() -> int:
    """Bytes that torch holds on CUDA devices; 0 when the model did not load torch."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    try:
        if cuda is None or not cuda.is_initialized():
            return 0
        return sum(cuda.memory_reserved(index) for index in range(cuda.device_count()))
    except (AttributeError, RuntimeError, AssertionError):
        # Half imported, or broken: the heartbeat goes on without the figure.
        return 0
