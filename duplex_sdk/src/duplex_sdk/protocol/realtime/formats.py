"""Audio formats on the wire: every spelling that is understood, and the one that is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from .errors import RealtimeProtocolError

__all__ = [
    "FORMAT_SPELLINGS",
    "G711_FORMATS",
    "G711_RATE",
    "INPUT_FORMATS",
    "MAX_RATE",
    "MIN_RATE",
    "OUTPUT_FORMATS",
    "AudioFormat",
    "canonical_format",
    "format_object",
    "parse_audio_format",
    "parse_rate",
]

MIN_RATE = 8_000
MAX_RATE = 192_000
G711_RATE = 8_000

FORMAT_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "pcm16": ("pcm16", "pcm", "pcm_s16le", "s16le", "audio/pcm", "audio/pcm16"),
    "pcm_f32le": ("pcm_f32le", "f32le", "audio/pcm_f32le"),
    "g711_ulaw": ("g711_ulaw", "g711-ulaw", "ulaw", "mulaw", "audio/g711_ulaw", "audio/pcmu"),
    "g711_alaw": ("g711_alaw", "g711-alaw", "alaw", "audio/g711_alaw", "audio/pcma"),
    "wav": ("wav", "audio/wav"),
}
"""Canonical name to the spellings accepted for it, in lower case."""

INPUT_FORMATS = frozenset({"pcm16", "pcm_f32le", "g711_ulaw", "g711_alaw"})
OUTPUT_FORMATS = frozenset({"pcm16", "g711_ulaw", "g711_alaw", "wav"})
G711_FORMATS = frozenset({"g711_ulaw", "g711_alaw"})

_CANONICAL = {
    spelling: name for name, spellings in FORMAT_SPELLINGS.items() for spelling in spellings
}
_GA_TYPES = {
    "pcm16": "audio/pcm",
    "pcm_f32le": "audio/pcm_f32le",
    "g711_ulaw": "audio/pcmu",
    "g711_alaw": "audio/pcma",
    "wav": "audio/wav",
}


class AudioFormat(msgspec.Struct, frozen=True):
    """A wire format.

    Attributes:
        name: canonical name, a key of ``FORMAT_SPELLINGS``.
        rate: Hz; None where none was stated.
    """

    name: str
    rate: int | None = None


def canonical_format(spelling: str) -> str | None:
    """The canonical name for any accepted spelling, in any case; None for an unknown one."""
    return _CANONICAL.get(spelling.lower())


def format_object(name: str, rate: int) -> dict[str, Any]:
    """The GA format object for a canonical name; G.711 states no rate."""
    rendered: dict[str, Any] = {"type": _GA_TYPES[name]}
    if name not in G711_FORMATS:
        rendered["rate"] = rate
    return rendered


def parse_audio_format(
    value: Any, *, supported: frozenset[str], param: str, code: str = "bad_event"
) -> AudioFormat:
    """Read a format given as a string or as ``{type, rate}`` in any accepted spelling.

    Args:
        value: what the client sent.
        supported: canonical names that may be used here.
        param: path of the field, for the error.
        code: error code for a value of the wrong JSON type or a bad rate.

    Raises:
        RealtimeProtocolError: ``unsupported_audio_format`` for a name that is unknown or not
            supported here, ``code`` for anything else that is wrong.
    """
    if isinstance(value, str):
        return AudioFormat(_supported_name(value, supported, param))
    if not isinstance(value, Mapping):
        raise RealtimeProtocolError(code, f"{param} must be a string or an object", param=param)
    spelling = value.get("type")
    if spelling is None:
        spelling = value.get("format")
    if not isinstance(spelling, str):
        raise RealtimeProtocolError(code, f"{param}.type must be a string", param=f"{param}.type")
    name = _supported_name(spelling, supported, param)
    for key in ("rate", "sample_rate_hz", "sample_rate"):
        if value.get(key) is not None:
            rate = parse_rate(value[key], param=f"{param}.{key}", code=code)
            return AudioFormat(name, rate)
    return AudioFormat(name)


def parse_rate(value: Any, *, param: str, code: str = "bad_event") -> int:
    """Read a sample rate in Hz: an integral number from ``MIN_RATE`` to ``MAX_RATE``.

    Raises:
        RealtimeProtocolError: ``code``, for anything else.
    """
    integral = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not integral or not MIN_RATE <= value <= MAX_RATE:
        raise RealtimeProtocolError(
            code, f"{param} must be a whole number from {MIN_RATE} to {MAX_RATE}", param=param
        )
    return int(value)


def _supported_name(spelling: str, supported: frozenset[str], param: str) -> str:
    name = canonical_format(spelling)
    if name is None or name not in supported:
        raise RealtimeProtocolError(
            "unsupported_audio_format",
            f"{param} is not one of {', '.join(sorted(supported))}",
            param=param,
        )
    return name
