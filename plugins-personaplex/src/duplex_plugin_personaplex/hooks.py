"""The commands of the model: check a checkpoint, time the model. Light until called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from duplex_sdk.discovery import Report, hookimpl

__all__ = ["duplex_bench_model", "duplex_verify_checkpoint"]

_NAME = "personaplex"


@hookimpl
def duplex_verify_checkpoint(name: str) -> Callable[[Path], Report] | None:
    """What checks a checkpoint of PersonaPlex."""
    if name != _NAME:
        return None
    from .runtime.verification import verify_checkpoint

    return verify_checkpoint


@hookimpl
def duplex_bench_model(name: str) -> Callable[[Mapping[str, Any]], Report] | None:
    """What times PersonaPlex."""
    if name != _NAME:
        return None
    from .runtime.bench import bench_model

    return bench_model
