"""Readers of what a session object settles for later frames."""

from __future__ import annotations

import msgspec

from .formats import G711_FORMATS, G711_RATE, AudioFormat

__all__ = ["RealtimeInputDefaults"]


class RealtimeInputDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """What an append that says nothing of its audio is taken to hold.

    Attributes:
        format: canonical name of the session's input format.
        rate: Hz the client declared for it; None when it declared none.
        native_rate: Hz the model takes; holds for PCM where nobody declared a rate.
    """

    format: str = "pcm16"
    rate: int | None = None
    native_rate: int = 16_000

    @property
    def effective_rate(self) -> int:
        """Hz of an append without format and rate."""
        return self._session_rate(self.format)

    def resolve(self, name: str | None = None, rate: int | None = None) -> AudioFormat:
        """The format and rate of one append; never without a rate.

        A rate declared for PCM says nothing about G.711, nor the other way round.

        Args:
            name: canonical format that the append names, if any.
            rate: Hz that the append names, if any.
        """
        chosen = self.format if name is None else name
        return AudioFormat(chosen, self._session_rate(chosen) if rate is None else rate)

    def _session_rate(self, name: str) -> int:
        is_g711 = name in G711_FORMATS
        if self.rate is not None and is_g711 == (self.format in G711_FORMATS):
            return self.rate
        return G711_RATE if is_g711 else self.native_rate
