"""What importing the client costs."""

from __future__ import annotations

import subprocess
import sys

from .figure import Figure, quantile

__all__ = ["measure_client_import"]

# Resident pages now, not the peak: a child inherits the peak of the process that spawned it.
_CODE = (
    "import os, time; start = time.perf_counter(); import {modules};"
    "took = time.perf_counter() - start;"
    "pages = int(open('/proc/self/statm').read().split()[1]);"
    "print(took, pages * os.sysconf('SC_PAGE_SIZE') / 1024)"
)
_LIBRARIES = "asyncio, websockets.asyncio.client, msgspec, pybase64"


def measure_client_import(times: int) -> list[Figure]:
    """Wall time (median) and memory of a fresh interpreter with the client in it."""
    client = [_imported("duplex_sdk.clients") for _ in range(times)]
    libraries = [_imported(_LIBRARIES) for _ in range(times)]
    return [
        Figure(
            "importing the client",
            quantile([seconds for seconds, _ in client], 0.5),
            "s",
            0.15,
            floor=quantile([seconds for seconds, _ in libraries], 0.5),
        ),
        Figure(
            "memory of an interpreter with the client",
            quantile([kib for _, kib in client], 0.5) / 1024,
            "MiB",
            40,
            floor=quantile([kib for _, kib in libraries], 0.5) / 1024,
        ),
    ]


def _imported(modules: str) -> tuple[float, float]:
    code = _CODE.format(modules=modules)
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    seconds, kib = result.stdout.split()
    return float(seconds), float(kib)
