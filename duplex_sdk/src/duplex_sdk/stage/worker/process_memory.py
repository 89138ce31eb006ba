"""How much memory a worker and its children occupy; asked once a second, so it must be cheap."""

from __future__ import annotations

import os
import sys

from .descendants import descendants

__all__ = ["device_memory", "resident_bytes"]

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0


def resident_bytes() -> int:
    """Resident memory of this process and all that it started; 0 where the system does not tell."""
    try:
        return sum(map(_pages, (os.getpid(), *descendants(os.getpid())))) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _pages(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:
            return int(statm.read().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        # A child that has ended meanwhile. Of this process that cannot be, but for other systems.
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
