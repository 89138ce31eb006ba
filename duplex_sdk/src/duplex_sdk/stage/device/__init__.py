"""Where a model may run: which devices there are and how much memory they have free.

Asked of the driver itself, so that it needs no library of any model. Loaded by the worker and by
whoever shows the machine to people.
"""

from __future__ import annotations

from .choice import resolve_device
from .memory import free_memory, free_memory_or_raise
from .nvidia import CudaDevice, cuda_devices

__all__ = [
    "CudaDevice",
    "cuda_devices",
    "free_memory",
    "free_memory_or_raise",
    "resolve_device",
]
