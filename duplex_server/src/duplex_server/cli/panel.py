"""What a person sees when the server listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from duplex_server.settings import ResolvedSettings

if TYPE_CHECKING:
    from duplex_server.entrypoints import DuplexOmni

__all__ = ["print_panel"]


def print_panel(resolved: ResolvedSettings, omni: DuplexOmni, address: str) -> None:
    """Say where the server is, what it serves and how many may talk at once."""
    rows = Table.grid(padding=(0, 2))
    rows.add_row("demo page", f"{address}/")
    rows.add_row("realtime", f"{address.replace('http', 'ws', 1)}/v1/realtime")
    rows.add_row("plugin", _plugin(resolved))
    rows.add_row("device", omni.device)
    rows.add_row("sessions", f"{omni.runtime_config.max_sessions} at once")
    rows.add_row("key", "required" if resolved.settings.serving.api_keys else "none needed")
    # Soft wrapped, so that an address stays in one piece for whoever reads it from a pipe.
    console = Console(soft_wrap=True)
    if console.is_terminal:
        console.print(Panel.fit(rows, title="duplex serve", subtitle="Ctrl-C stops"))
    else:
        console.print(rows)
    console.file.flush()


def _plugin(resolved: ResolvedSettings) -> str:
    spec = resolved.spec
    return f"{spec.name}  ({spec.summary})" if spec.summary else spec.name
