from __future__ import annotations

import subprocess
import sys

from patience import PATIENCE_S

FORBIDDEN = (
    "numpy",
    "pydantic",
    "pydantic_settings",
    "starlette",
    "soxr",
    "onnxruntime",
    "rich",
    "websockets",  # only once a connection opens
)
FORBIDDEN_OURS = ("duplex_server", "duplex_sdk.plugin", "duplex_sdk.stage", "duplex_sdk.session")


def run(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return result.stdout.strip()


def test_client_import_pulls_in_neither_numpy_nor_sockets_nor_server_nor_plugins() -> None:
    loaded = run("import sys, duplex_sdk.clients; print(*sys.modules)").split()
    heavy = [name for name in loaded if name.split(".")[0] in FORBIDDEN]
    ours = [name for name in loaded if name.startswith(FORBIDDEN_OURS)]
    assert heavy == []
    assert ours == []
