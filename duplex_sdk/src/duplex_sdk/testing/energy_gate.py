"""The simplest ear there is: for how long there has been sound, and for how long there is none."""

from __future__ import annotations

from dataclasses import dataclass

from duplex_sdk.audio.chunk import PcmChunk

__all__ = ["EnergyGate"]

_LOUD = 0.01


@dataclass(slots=True)
class EnergyGate:
    """Counts sound and silence of a stream of whole units.

    Attributes:
        loud_ms: sound since it was last set to 0, by its owner or by ``hear``.
        quiet_ms: silence since the last sound.
    """

    loud_ms: float = 0.0
    quiet_ms: float = 0.0

    def hear(self, chunk: PcmChunk | None, *, in_a_row: bool) -> None:
        """Take one unit; with ``in_a_row`` a silent one sets ``loud_ms`` back to 0."""
        if chunk is None or not chunk.count:
            return
        samples = chunk.numpy()
        if float(samples @ samples) / chunk.count > _LOUD * _LOUD:
            self.loud_ms += chunk.duration_ms
            self.quiet_ms = 0.0
            return
        self.quiet_ms += chunk.duration_ms
        if in_a_row:
            self.loud_ms = 0.0
