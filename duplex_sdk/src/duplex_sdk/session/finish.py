"""Why a model stopped speaking."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duplex_sdk.plugin import ModelResult

__all__ = ["CUT_SHORT", "finish_of"]

CUT_SHORT = "length"
"""What a model says when its answer reached the most tokens it may have."""


def finish_of(result: ModelResult) -> str:
    """What the result that ends a turn says about it, else ``stop``."""
    said = result.metadata.get("finish_reason")
    return said if isinstance(said, str) and said else "stop"
