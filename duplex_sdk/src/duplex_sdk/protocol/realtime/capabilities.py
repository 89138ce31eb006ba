"""What one side of the wire takes: the formats and rates a consumer of the codec can serve."""

from __future__ import annotations

import msgspec

from .formats import G711_FORMATS, INPUT_FORMATS, OUTPUT_FORMATS

__all__ = ["ANY_RATE_PROTOCOL", "OPENAI_PROTOCOL", "RealtimeProtocolCapabilities"]

_OPENAI_FORMATS = G711_FORMATS | {"pcm16"}


class RealtimeProtocolCapabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Formats a client may name.

    Attributes:
        input_formats: canonical names for input audio.
        output_formats: canonical names for output audio.
        pcm_rate: the only PCM rate, in Hz; None where any rate in range is served.
    """

    input_formats: frozenset[str] = INPUT_FORMATS
    output_formats: frozenset[str] = OUTPUT_FORMATS
    pcm_rate: int | None = None


ANY_RATE_PROTOCOL = RealtimeProtocolCapabilities()
"""Every format and rate that the codec knows."""

OPENAI_PROTOCOL = RealtimeProtocolCapabilities(
    input_formats=_OPENAI_FORMATS, output_formats=_OPENAI_FORMATS, pcm_rate=24_000
)
"""What OpenAI itself serves."""
