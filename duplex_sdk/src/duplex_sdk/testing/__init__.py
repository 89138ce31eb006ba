"""What tests lean on: audio that carries its own position, and a plugin that follows a script."""

from __future__ import annotations

from .counter_audio import Block, CounterAudio

__all__ = ["Block", "CounterAudio"]
