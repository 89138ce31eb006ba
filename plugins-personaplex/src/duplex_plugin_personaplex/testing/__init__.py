"""What tests and benchmarks lean on: a checkpoint like the release's, but tiny."""

from __future__ import annotations

from .tiny_checkpoint import write_tiny_checkpoint

__all__ = ["write_tiny_checkpoint"]
