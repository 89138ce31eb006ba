"""A caller's own voice: from an upload to samples the model can be shown."""

from __future__ import annotations

import base64
import binascii

import numpy as np
from duplex_sdk.audio import BadAudioError, PcmChunk, read_wav, resample
from duplex_sdk.plugin import DuplexRuntimeConfigError

from .figures import RATE
from .loudness import loudness_lufs, to_loudness

__all__ = ["MAX_CLIP_S", "MIN_CLIP_S", "VOICE_LUFS", "VoiceClipError", "voice_clip", "voice_upload"]

MIN_CLIP_S = 1.0
MAX_CLIP_S = 20.0
VOICE_LUFS = -24.0
_SILENT_LUFS = -60.0
# A stereo recording at 48 kHz and 32 bits of the greatest length, and some headers.
_MAX_BYTES = int(MAX_CLIP_S * 48_000 * 2 * 4) + 65_536


class VoiceClipError(ValueError):
    """A recording that cannot be a voice, and why."""


def voice_clip(wav: bytes) -> PcmChunk:
    """A recording as the model wants a voice: mono, 24 kHz, -24 LUFS.

    Raises:
        VoiceClipError: no WAV, too short, too long, or silent.
    """
    try:
        clip = read_wav(wav)
    except BadAudioError as error:
        raise VoiceClipError(f"it is no WAV file that can be read: {error}") from error
    seconds = clip.duration_ms / 1000
    if not MIN_CLIP_S <= seconds <= MAX_CLIP_S:
        raise VoiceClipError(
            f"it lasts {seconds:.1f} s; a voice needs {MIN_CLIP_S:g} to {MAX_CLIP_S:g} s"
        )
    samples = np.nan_to_num(resample(clip, RATE).numpy(), nan=0.0, posinf=0.0, neginf=0.0)
    if loudness_lufs(samples, RATE) < _SILENT_LUFS:
        raise VoiceClipError("it is silent")
    return PcmChunk.of(to_loudness(samples, RATE, VOICE_LUFS), RATE)


def voice_upload(url: str) -> PcmChunk:
    """The voice in a ``data:audio/...;base64,`` URL.

    Raises:
        DuplexRuntimeConfigError: it cannot be used; names ``session.ref_audio`` and the reason.
    """
    head, comma, body = url.partition(",")
    if not comma or not head.startswith("data:audio/") or not head.endswith(";base64"):
        raise DuplexRuntimeConfigError(
            "unsupported_ref_audio_path",
            "ref_audio must be a base64 data URL of a WAV file",
            param="session.ref_audio",
        )
    try:
        if len(body) * 3 // 4 > _MAX_BYTES:
            raise VoiceClipError(f"it is larger than {MAX_CLIP_S:g} s of sound can be")
        return voice_clip(base64.b64decode(body, validate=True))
    except (VoiceClipError, binascii.Error) as error:
        raise DuplexRuntimeConfigError(
            "invalid_duplex_runtime_config", f"ref_audio: {error}", param="session.ref_audio"
        ) from error
