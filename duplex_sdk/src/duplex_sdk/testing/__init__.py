"""What tests lean on: the conformance kit, and audio that carries its own position.

The names here are loaded on first use: pytest imports this package in every environment that has
the SDK, whatever it tests.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .conformance import ModelConformance
    from .counter_audio import Block, CounterAudio

__all__ = ["Block", "CounterAudio", "ModelConformance"]

_LAZY = {
    "Block": "counter_audio",
    "CounterAudio": "counter_audio",
    "ModelConformance": "conformance",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
