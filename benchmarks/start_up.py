"""How long until a server can be spoken to."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

from .figure import Figure
from .process_cpu import cpu_of

__all__ = ["measure_start_up"]

_PANEL = re.compile(r"https?://127\.0\.0\.1:\d+")
_LIBRARIES = (
    "import asyncio, importlib.metadata, msgspec, numpy, onnxruntime, prometheus_client, pydantic,"
    " rich, soxr, starlette, typer, uvicorn, websockets, yaml"
)
_TIMEOUT_S = 60


def measure_start_up(times: int) -> list[Figure]:
    """From the command to the panel that says where the server is, files in the page cache.

    The best of several: everything that delays it comes from other programs.
    """
    _served()
    ready = [_served() for _ in range(times)]
    imports = [_imported() for _ in range(times)]
    wall, cpu = [min(column) for column in zip(*ready, strict=True)]
    bare_wall, bare_cpu = [min(column) for column in zip(*imports, strict=True)]
    return [
        Figure("duplex serve --plugin local, ready", wall, "s", 2.0, floor=bare_wall),
        Figure("the same, CPU time of all threads", cpu, "s", floor=bare_cpu),
    ]


def _served() -> tuple[float, float]:
    """Seconds until it is ready, by the clock and of CPU."""
    begun = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "duplex_sdk.cli", "serve", "--plugin", "local", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        assert server.stdout is not None
        said = []
        for line in server.stdout:
            said.append(line)
            if _PANEL.search(line):
                took = time.monotonic() - begun, cpu_of(server.pid)
                server.send_signal(signal.SIGTERM)
                server.communicate(timeout=_TIMEOUT_S)
                return took
    raise RuntimeError("the server did not start:\n" + "".join(said))


def _imported() -> tuple[float, float]:
    """The same for the libraries alone."""
    begun, before = time.monotonic(), os.times()
    subprocess.run([sys.executable, "-c", _LIBRARIES], check=True, timeout=_TIMEOUT_S)
    after = os.times()
    cpu = after.children_user + after.children_system
    return time.monotonic() - begun, cpu - before.children_user - before.children_system
