"""What a figure was measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

__all__ = ["describe_machine", "process_cpu_seconds"]

_VERSIONS_OF = (
    "duplex-sdk",
    "duplex-server",
    "duplex-plugin-local",
    "msgspec",
    "numpy",
    "onnxruntime",
    "starlette",
    "uvicorn",
    "uvloop",
    "websockets",
)


def describe_machine() -> dict[str, object]:
    """Interpreter, processor, memory, load and the versions of what takes part."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _field(Path("/proc/cpuinfo"), "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _field(Path("/proc/meminfo"), "MemTotal"),
        "load": [round(each, 2) for each in os.getloadavg()],
        "versions": {name: _version(name) for name in _VERSIONS_OF},
    }


def process_cpu_seconds(pid: int) -> float:
    """CPU time a process has used, in seconds; Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _field(path: Path, name: str) -> str:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "?")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
