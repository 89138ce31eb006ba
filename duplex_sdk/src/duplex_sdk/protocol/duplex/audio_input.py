"""An append with everything we add to OpenAI's: format, speech hints, video frames."""

from __future__ import annotations

from typing import Any

from duplex_sdk.protocol.realtime.audio_input import read_audio, read_audio_format
from duplex_sdk.protocol.realtime.base64_text import decode_base64
from duplex_sdk.protocol.realtime.errors import RealtimeProtocolError
from duplex_sdk.protocol.realtime.fields import Fields, as_number
from duplex_sdk.protocol.realtime.images import image_kind

from .commands import NO_HINTS, AppendAudio, AppendHints

__all__ = ["MAX_FRAME_CHARS", "MAX_VIDEO_FRAMES", "decode_audio_append"]

MAX_VIDEO_FRAMES = 2
MAX_FRAME_CHARS = 4_000_000

_HINT_NAMES = frozenset(
    {
        "audio_start_ms",
        "speech",
        "speech_probability",
        "vad",
        "overlap_action",
        "overlap",
        "force_barge_in",
        "force_listen",
        "text",
        "transcript",
    }
)


def decode_audio_append(fields: Fields, event_id: str | None = None) -> AppendAudio:
    """Read ``input_audio_buffer.append`` with our additions.

    Raises:
        RealtimeProtocolError: ``bad_audio``, ``unsupported_audio_format``,
            ``invalid_video_frames``, or ``bad_event`` when it carries neither audio nor frames or
            a field of the wrong type.
    """
    audio = read_audio(fields)
    name, rate = read_audio_format(fields)
    frames = _video_frames(fields)
    if not audio and not frames:
        raise RealtimeProtocolError(
            "bad_event", "the append carries neither audio nor video frames", param="audio"
        )
    duration = "duration_ms" if fields.get("duration_ms") is not None else "audio_duration_ms"
    return AppendAudio(
        event_id=event_id,
        audio=audio,
        format=name,
        sample_rate_hz=rate,
        is_speech=fields.flag("is_speech"),
        video_frames=frames,
        max_slice_nums=_max_slice_nums(fields),
        duration_ms=_milliseconds(fields, duration),
        audio_end_ms=_milliseconds(fields, "audio_end_ms"),
        hints=_hints(fields.values) if _HINT_NAMES & fields.values.keys() else NO_HINTS,
    )


def _milliseconds(fields: Fields, name: str) -> int | None:
    number = fields.number(name, at_least=0)
    return None if number is None else int(number)


def _video_frames(fields: Fields) -> tuple[bytes, ...]:
    frames = fields.get("video_frames")
    if frames is None:
        return ()
    if not isinstance(frames, list | tuple) or len(frames) > MAX_VIDEO_FRAMES:
        raise _bad_frames("video_frames", f"must be a list of at most {MAX_VIDEO_FRAMES} images")
    return tuple(_video_frame(frame, index) for index, frame in enumerate(frames))


def _video_frame(frame: Any, index: int) -> bytes:
    param = f"video_frames[{index}]"
    if not isinstance(frame, str) or len(frame) > MAX_FRAME_CHARS:
        raise _bad_frames(param, f"must be base64 of at most {MAX_FRAME_CHARS} characters")
    data = decode_base64(frame, code="invalid_video_frames", param=param)
    if image_kind(data) is None:
        raise _bad_frames(param, "is neither JPEG nor PNG")
    return data


def _max_slice_nums(fields: Fields) -> int | None:
    value = fields.get("max_slice_nums")
    if value is None or (value == 1 and not isinstance(value, bool)):
        return None if value is None else 1
    raise _bad_frames("max_slice_nums", "can only be null or 1")


def _bad_frames(param: str, problem: str) -> RealtimeProtocolError:
    return RealtimeProtocolError("invalid_video_frames", f"{param} {problem}", param=param)


# A hint is advice: one of the wrong type says nothing and refuses nothing.


def _hints(values: Any) -> AppendHints:
    start_ms = as_number(values.get("audio_start_ms"))
    probability = as_number(values.get("speech_probability"))
    vad = values.get("vad")
    return AppendHints(
        audio_start_ms=None if start_ms is None else int(start_ms),
        speech=_flag(values.get("speech")),
        speech_probability=None if probability is None else float(probability),
        vad=vad if isinstance(vad, dict) else None,
        overlap_action=_word(values.get("overlap_action")) or _word(values.get("overlap")),
        force_barge_in=values.get("force_barge_in") is True,
        force_listen=values.get("force_listen") is True,
        transcript=_word(values.get("transcript")) or _word(values.get("text")),
    )


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
