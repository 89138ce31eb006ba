"""How much memory a device has free, and whether a model fits."""

from __future__ import annotations

from pathlib import Path

from duplex_sdk.stage.model import StageLoadError

from .nvidia import cuda_devices

__all__ = ["free_memory", "free_memory_or_raise"]

_MIB = 1024 * 1024
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def free_memory(device: str) -> int | None:
    """Bytes free on a device; None: nobody can tell."""
    kind, _, number = device.partition(":")
    if kind == "cpu":
        return _free_main_memory(_MEMINFO, _CGROUP)
    if kind == "cuda":
        places = {found.index: found.free_bytes for found in cuda_devices()}
        return places.get(int(number) if number.isdecimal() else 0)
    return None


def free_memory_or_raise(device: str, needed: int) -> None:
    """Make sure that a model fits before minutes go into loading it.

    Raises:
        StageLoadError: it does not.
    """
    free = free_memory(device) if needed else None
    if free is None or free >= needed:
        return
    raise StageLoadError(
        f"the model needs {needed // _MIB} MiB on {device} and {free // _MIB} MiB are free there",
        "stop what occupies it, choose another device, or run fewer replicas",
    )


def _free_main_memory(meminfo: Path, cgroup: Path) -> int | None:
    """What the machine has left, or the container's limit where that is less."""
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        available = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    try:
        limit = int((cgroup / "memory.max").read_text())
        return max(0, min(available, limit - _used_by_container(cgroup)))
    except (OSError, ValueError):
        # No container, or one without a limit ("max").
        return available


def _used_by_container(cgroup: Path) -> int:
    """What it holds, less the files that are cached only because there is room."""
    stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
    return int((cgroup / "memory.current").read_text()) - int(stat.get("inactive_file", 0))
