"""The contract of full-duplex speech serving: wire codec, plugin types, session core, client.

The names here are loaded on first use, so that ``import duplex_sdk`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import (
    DuplexError,
    PluginBrokenError,
    PluginConflictError,
    PluginIncompatibleError,
    PluginNotFoundError,
)

if TYPE_CHECKING:
    from .audio import PcmChunk
    from .clients import DuplexClient
    from .plugin import (
        API_VERSION,
        DuplexCapabilities,
        DuplexModelPlugin,
        PluginOption,
        PluginSpec,
    )
    from .stage import PipelineConfig, StageConfig, StageModel

__all__ = [
    "API_VERSION",
    "DuplexCapabilities",
    "DuplexClient",
    "DuplexError",
    "DuplexModelPlugin",
    "PcmChunk",
    "PipelineConfig",
    "PluginBrokenError",
    "PluginConflictError",
    "PluginIncompatibleError",
    "PluginNotFoundError",
    "PluginOption",
    "PluginSpec",
    "StageConfig",
    "StageModel",
]

_LAZY = {
    "API_VERSION": "plugin",
    "DuplexCapabilities": "plugin",
    "DuplexClient": "clients",
    "DuplexModelPlugin": "plugin",
    "PcmChunk": "audio",
    "PipelineConfig": "stage",
    "PluginOption": "plugin",
    "PluginSpec": "plugin",
    "StageConfig": "stage",
    "StageModel": "stage",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
