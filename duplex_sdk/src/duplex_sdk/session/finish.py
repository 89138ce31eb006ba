"""Why a model stopped speaking."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duplex_sdk.plugin import ModelResult

__all__ = ["finish_of"]


def finish_of(result: ModelResult) -> str:
    """What the result that ends a turn says about it, else ``stop``."""
    said = result.metadata.get("finish_reason")
    return said if isinstance(said, str) and said else "stop"
