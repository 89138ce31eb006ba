"""What a person sees when the server listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.stage.device import cuda_devices
from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from duplex_server.entrypoints import DuplexOmni
from duplex_server.settings import ResolvedSettings

if TYPE_CHECKING:
    from duplex_server.entrypoints import AsyncOmni

    from .stack import ServingStack

__all__ = ["print_panel"]


def print_panel(resolved: ResolvedSettings, stack: ServingStack, address: str) -> None:
    """Say where the server is, what it serves and how many may talk at once."""
    rows = {
        **_ways_in(stack.omni, address),
        "plugin": _plugin(resolved),
        "device": _device(stack.omni),
        "memory": _memory(stack.omni),
        "key": _key(resolved, stack),
    }
    console = Console()
    if console.is_terminal:
        console.print(Panel.fit(_grid(rows), title="duplex serve", subtitle="Ctrl-C stops"))
        return
    # Plain lines for whoever reads it from a pipe, and at once.
    for name, value in rows.items():
        print(f"{name}: {value}", flush=True)


def _ways_in(omni: AsyncOmni, address: str) -> dict[str, str]:
    if not isinstance(omni, DuplexOmni):
        return {"chat completions": f"{address}/v1/chat/completions"}
    return {
        "demo page": f"{address}/",
        "realtime": f"{address.replace('http', 'ws', 1)}/v1/realtime",
        "sessions": f"{omni.runtime_config.max_sessions} at once",
    }


def _grid(rows: dict[str, str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        grid.add_row(name, value)
    return grid


def _device(omni: AsyncOmni) -> str:
    nobody_chose = any(stage.device is None for stage in omni.pipeline.stages)
    if omni.device == "cpu" and nobody_chose and not cuda_devices():
        return "cpu  (no CUDA device here; large models are slow on it)"
    return omni.device


def _memory(omni: AsyncOmni) -> str:
    """What the models occupy, as far as they tell or it can be measured."""
    replicas = [replica for stage in omni.health().stages for replica in stage.replicas]
    mib = sum(replica.memory_bytes for replica in replicas) // (1 << 20)
    return f"{mib} MiB in {len(replicas)} {'replica' if len(replicas) == 1 else 'replicas'}"


def _key(resolved: ResolvedSettings, stack: ServingStack) -> str:
    authenticator = stack.extensions.authenticator
    if authenticator is not None:
        return f"{type(authenticator).__name__} admits clients"
    return "required" if resolved.settings.serving.api_keys else "none needed"


def _plugin(resolved: ResolvedSettings) -> str:
    spec = resolved.spec
    return f"{spec.name}  ({spec.summary})" if spec.summary else spec.name
