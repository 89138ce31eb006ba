"""WAV files in requests and answers."""

from __future__ import annotations

import io
import wave

import numpy as np

from .refusal import ChatRefusedError

__all__ = ["read_wav", "wav_file"]


def read_wav(data: bytes, *, param: str) -> tuple[bytes, int]:
    """The samples of a WAV file.

    Args:
        data: a file with 16-bit PCM; several channels are mixed to one.
        param: the field it came from, to blame.

    Returns:
        PCM16, little-endian and mono, and its rate in Hz.

    Raises:
        ChatRefusedError: ``bad_audio``, or ``unsupported_audio_format`` for other samples.
    """
    try:
        with wave.open(io.BytesIO(data)) as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            pcm = file.readframes(file.getnframes())
    except wave.Error as error:
        if "format" in str(error):
            raise ChatRefusedError(
                "unsupported_audio_format", "a WAV file must hold 16-bit PCM", param=param
            ) from error
        raise ChatRefusedError("bad_audio", "this is no WAV file", param=param) from error
    except EOFError as error:
        raise ChatRefusedError("bad_audio", "the WAV file is cut off", param=param) from error
    if width != 2:
        raise ChatRefusedError(
            "unsupported_audio_format", "a WAV file must hold 16-bit PCM", param=param
        )
    whole = pcm[: len(pcm) - len(pcm) % (2 * channels)]
    if channels > 1:
        samples = np.frombuffer(whole, "<i2").reshape(-1, channels)
        whole = samples.mean(axis=1).round().astype("<i2").tobytes()
    return whole, rate


def wav_file(pcm: bytes, rate: int) -> bytes:
    """A WAV file of mono PCM16 at ``rate`` Hz."""
    target = io.BytesIO()
    with wave.open(target, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm)
    return target.getvalue()
