"""Input audio as a client sends it, in an append or in an item's part."""

from __future__ import annotations

from .base64_text import decode_base64
from .commands import AppendAudio
from .errors import RealtimeProtocolError
from .fields import Fields
from .formats import INPUT_FORMATS, AudioFormat, parse_audio_format, parse_rate

__all__ = ["decode_audio_append", "read_audio", "read_audio_format"]


def decode_audio_append(fields: Fields, event_id: str | None = None) -> AppendAudio:
    """Read ``input_audio_buffer.append`` as OpenAI defines it.

    Raises:
        RealtimeProtocolError: ``bad_event`` without audio, ``bad_audio`` when it is not base64.
    """
    audio = read_audio(fields)
    if not audio:
        raise RealtimeProtocolError("bad_event", "audio is missing", param=fields.param("audio"))
    return AppendAudio(event_id=event_id, audio=audio)


def read_audio(fields: Fields) -> bytes:
    """The bytes of ``audio`` (or its synonym ``delta``); empty when absent.

    Raises:
        RealtimeProtocolError: ``bad_audio``, when it is not a string of strict base64.
    """
    name = "delta" if fields.get("audio") is None else "audio"
    encoded = fields.get(name)
    if encoded is None:
        return b""
    param = fields.param(name)
    if not isinstance(encoded, str):
        raise RealtimeProtocolError("bad_audio", f"{param} must be a base64 string", param=param)
    return decode_base64(encoded, code="bad_audio", param=param)


def read_audio_format(fields: Fields) -> tuple[str | None, int | None]:
    """Canonical format and rate in Hz that came with the audio; None for what was not said.

    An explicit rate wins over that of a format object.

    Raises:
        RealtimeProtocolError: ``unsupported_audio_format``, or ``bad_event`` for a bad rate.
    """
    stated = _stated_format(fields)
    name, rate = (None, None) if stated is None else (stated.name, stated.rate)
    explicit = fields.get("sample_rate_hz", "sample_rate")
    if explicit is not None:
        rate = parse_rate(explicit, param=fields.param("sample_rate_hz"))
    return name, rate


def _stated_format(fields: Fields) -> AudioFormat | None:
    for name in ("format", "input_audio_format"):
        value = fields.get(name)
        if value is not None:
            return parse_audio_format(value, supported=INPUT_FORMATS, param=fields.param(name))
    return None
