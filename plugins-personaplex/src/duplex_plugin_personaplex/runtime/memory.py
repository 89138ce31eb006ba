"""How much memory a device has left, and whether that is enough."""

from __future__ import annotations

import gc
from pathlib import Path

import torch

from .errors import TooLittleMemoryError

__all__ = ["gigabytes", "memory_available", "release_memory", "require_memory"]

_MEMINFO = Path("/proc/meminfo")
# Work space of the kernels and the graphs, on top of weights and windows.
_HEADROOM = 1.05


def memory_available(device: torch.device) -> int | None:
    """Bytes free on a device; None where that cannot be found out."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if not _MEMINFO.exists():
        return None
    for line in _MEMINFO.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def require_memory(
    weight_bytes: int, slot_bytes: int, slots: int, available: int | None, device: str
) -> int:
    """The bytes needed, made sure to be there.

    Raises:
        TooLittleMemoryError: there is not enough.
    """
    needed = int((weight_bytes + slots * slot_bytes) * _HEADROOM)
    if available is None or needed <= available:
        return needed
    room = int((available / _HEADROOM - weight_bytes) // slot_bytes)
    hint = f"--slots {room} would fit" if room > 0 else "a larger device is needed"
    raise TooLittleMemoryError(
        f"{slots} slots need {gigabytes(needed)} on {device}"
        f" ({gigabytes(weight_bytes)} weights, {gigabytes(slot_bytes)} each slot);"
        f" {gigabytes(available)} are free",
        hint=hint,
    )


def release_memory() -> None:
    """Give back what models that are gone have left, graphs and cycles included."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def gigabytes(count: int) -> str:
    """A size for a person."""
    return f"{count / 1e9:.1f} GB"
