"""How long until a server can be spoken to."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time

from .figure import Figure

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
    return [
        Figure("duplex serve --plugin local, ready", min(ready), "s", 2.0, floor=min(imports)),
    ]


def _served() -> float:
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
                took = time.monotonic() - begun
                server.send_signal(signal.SIGTERM)
                server.communicate(timeout=_TIMEOUT_S)
                return took
    raise RuntimeError("the server did not start:\n" + "".join(said))


def _imported() -> float:
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", _LIBRARIES], check=True, timeout=_TIMEOUT_S)
    return time.monotonic() - begun
