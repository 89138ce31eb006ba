"""The in-process API: engines, sessions and clients without a socket.

Names are loaded when first used, so that the turn-based half stays free of everything that has to
do with sessions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duplex_server.runtime.errors import DuplexSessionError

    from .async_omni import AsyncOmni
    from .duplex_omni import DuplexOmni
    from .engine_health import EngineHealth, StageHealth
    from .inline_client import InlineDuplexClient
    from .omni_base import AsyncOmniBase, OmniBase
    from .session_handle import DuplexSessionHandle
    from .warmup import warm_up

__all__ = [
    "AsyncOmni",
    "AsyncOmniBase",
    "DuplexOmni",
    "DuplexSessionError",
    "DuplexSessionHandle",
    "EngineHealth",
    "InlineDuplexClient",
    "OmniBase",
    "StageHealth",
    "warm_up",
]

_HOMES = {
    "AsyncOmni": ".async_omni",
    "AsyncOmniBase": ".omni_base",
    "DuplexOmni": ".duplex_omni",
    "DuplexSessionError": "duplex_server.runtime.errors",
    "DuplexSessionHandle": ".session_handle",
    "EngineHealth": ".engine_health",
    "InlineDuplexClient": ".inline_client",
    "OmniBase": ".omni_base",
    "StageHealth": ".engine_health",
    "warm_up": ".warmup",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __package__), name)
