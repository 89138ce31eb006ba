"""What can be wrong with a checkpoint."""

from __future__ import annotations

from duplex_sdk.stage import StageLoadError

__all__ = ["CheckpointError", "TooLittleMemoryError"]


class CheckpointError(StageLoadError):
    """A checkpoint that cannot be served; the message names the file and the tensor."""


class TooLittleMemoryError(CheckpointError):
    """The device has no room for it; says how much is needed and what would fit."""
