"""Audio: samples and their rate, resampling, G.711 and WAV. numpy is loaded on first need only."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .chunk import BadAudioError, PcmChunk

if TYPE_CHECKING:
    from .decoder import InputDecoder
    from .encoder import OutputEncoder
    from .g711 import alaw_decode, alaw_encode, ulaw_decode, ulaw_encode
    from .pcm import float_to_pcm16, nan_count, pcm16_to_float, rms, without_nan
    from .resampling import StreamResampler, resample
    from .wav import read_wav, wav_bytes, write_wav

__all__ = [
    "BadAudioError",
    "InputDecoder",
    "OutputEncoder",
    "PcmChunk",
    "StreamResampler",
    "alaw_decode",
    "alaw_encode",
    "float_to_pcm16",
    "nan_count",
    "pcm16_to_float",
    "read_wav",
    "resample",
    "rms",
    "ulaw_decode",
    "ulaw_encode",
    "wav_bytes",
    "without_nan",
    "write_wav",
]

# A client needs PcmChunk and no numpy; its import budget would not bear it.
_LAZY = {
    "InputDecoder": "decoder",
    "OutputEncoder": "encoder",
    "StreamResampler": "resampling",
    "alaw_decode": "g711",
    "alaw_encode": "g711",
    "float_to_pcm16": "pcm",
    "nan_count": "pcm",
    "pcm16_to_float": "pcm",
    "read_wav": "wav",
    "resample": "resampling",
    "rms": "pcm",
    "ulaw_decode": "g711",
    "ulaw_encode": "g711",
    "wav_bytes": "wav",
    "without_nan": "pcm",
    "write_wav": "wav",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
