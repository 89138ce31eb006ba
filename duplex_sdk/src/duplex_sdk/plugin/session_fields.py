"""Reading a client's session object: every spelling, one typed value under one name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from duplex_sdk.protocol.duplex import (
    AudioFormat,
    Fields,
    RealtimeProtocolCapabilities,
    RealtimeProtocolError,
    decode_base64,
    parse_audio_format,
    parse_rate,
)

from .config_errors import DuplexConfigError

__all__ = ["OVERLAP_POLICIES", "PLAYBACK_POLICIES", "SessionReader", "is_private_extra"]

Path = tuple[str, ...]

OVERLAP_POLICIES = ("listen_only", "barge_in_on_speech", "barge_in_on_sustained_speech")
PLAYBACK_POLICIES = ("commit_all_on_done", "ack_only")
MODALITIES = ("text", "audio")

_MISSING = object()
_UNLIMITED = ("inf", "infinity", "unlimited")
_REF_AUDIO = re.compile(r"data:audio/[\w.+-]+(?:;[\w=.+-]+)*;base64,", re.ASCII)


class _WrongValueError(Exception):
    def __init__(self, problem: str, code: str | None = None) -> None:
        super().__init__(problem)
        self.code = code


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise _WrongValueError("must be a string")


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise _WrongValueError("must be true or false")


def _number(value: Any) -> float:
    try:
        number = Fields({"it": value}).number("it")
    except RealtimeProtocolError:
        number = None
    if number is None:
        raise _WrongValueError("must be a finite number")
    return number


def _positive(value: Any) -> float:
    number = _number(value)
    if number > 0:
        return number
    raise _WrongValueError("must be above zero")


def _not_below_zero(value: Any) -> float:
    return max(0, _number(value))


def _milliseconds(value: Any) -> int:
    number = _number(value)
    if float(number).is_integer():
        return max(0, int(number))
    raise _WrongValueError("must be a whole number")


def _object(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise _WrongValueError("must be an object")


def _anything(value: Any) -> Any:
    return value


def _modalities(value: Any) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and value and all(name in MODALITIES for name in value):
        return tuple(dict.fromkeys(value))
    raise _WrongValueError("must be a list of text, audio or both")


def _voice(value: Any) -> str:
    name = value.get("id") if isinstance(value, Mapping) else value
    if isinstance(name, str) and name:
        return name
    raise _WrongValueError("must be a voice's name, or an object with its id")


def _max_tokens(value: Any) -> int | None:
    if value in _UNLIMITED:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise _WrongValueError('must be a whole number from 1, or "inf"')


def _tools(value: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, list | tuple):
        raise _WrongValueError("must be a list of function tools", "invalid_tools")
    return tuple(_tool(tool) for tool in value)


def _tool(tool: Any) -> dict[str, Any]:
    if not isinstance(tool, Mapping) or tool.get("type") != "function":
        raise _WrongValueError("may hold function tools only", "invalid_tools")
    name, description = tool.get("name"), tool.get("description")
    if not isinstance(name, str) or not name:
        raise _WrongValueError("holds a tool without a name", "invalid_tools")
    if not isinstance(description, str | None):
        raise _WrongValueError("holds a description that is no string", "invalid_tools")
    if not isinstance(tool.get("parameters"), Mapping | None):
        raise _WrongValueError("holds parameters that are no object", "invalid_tools")
    return dict(tool)


def _tool_choice(value: Any) -> str | dict[str, Any]:
    if isinstance(value, str) and value in ("auto", "none", "required"):
        return value
    if isinstance(value, Mapping) and value.get("type") == "function" and value.get("name"):
        return dict(value)
    raise _WrongValueError("must be auto, none, required, or name a function")


def _tracing(value: Any) -> str | dict[str, Any]:
    return "auto" if value == "auto" else _object(value)


def _metadata(value: Any) -> dict[str, str]:
    pairs = _object(value)
    if all(isinstance(entry, str) for entry in pairs.values()):
        return pairs
    raise _WrongValueError("must be an object of strings")


def _noise_reduction(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping) and value.get("type") in ("near_field", "far_field"):
        return dict(value)
    raise _WrongValueError("must be of type near_field or far_field")


def _ref_audio(value: Any) -> str:
    text = _text(value)
    head = _REF_AUDIO.match(text)
    if head is None:
        raise _WrongValueError("must be a base64 data URL of audio", "unsupported_ref_audio_path")
    try:
        decode_base64(text[head.end() :], code="", param="")
    except RealtimeProtocolError:
        raise _WrongValueError("is not strict base64") from None
    return text


def _overlap_policy(value: Any) -> str:
    name = _text(value)
    return name if name in OVERLAP_POLICIES else OVERLAP_POLICIES[0]


def _playback_policy(value: Any) -> str:
    name = _text(value)
    return name if name in PLAYBACK_POLICIES else PLAYBACK_POLICIES[0]


def _duplex_events(value: Any) -> tuple[str, ...]:
    events = value.get("events") if isinstance(value, Mapping) else None
    if events == "all":
        return ("all",)
    if isinstance(events, list | tuple) and all(isinstance(name, str) for name in events):
        return tuple(dict.fromkeys(events))
    raise _WrongValueError('must hold events: a list of event types, or "all"')


class _Field(msgspec.Struct, frozen=True):
    name: str
    read: Callable[[Any], Any]
    paths: tuple[Path, ...]
    nullable: bool = False
    droppable: bool = False
    """A lenient connection drops a value that nobody here knows instead of refusing it."""


def _also_extra(name: str, read: Callable[[Any], Any]) -> _Field:
    return _Field(name, read, (("extra_body", name), (name,)))


def _stored(name: str) -> _Field:
    return _Field(name, _anything, ((name,),), nullable=True)


_INPUT, _OUTPUT = ("audio", "input"), ("audio", "output")
_TOKEN_NAMES = ("max_response_output_tokens", "max_output_tokens", "max_tokens")

# The first path that is present wins.
_FIELDS = (
    _Field("model", _text, (("model",),), nullable=True),
    _Field("modalities", _modalities, (("modalities",), ("output_modalities",))),
    _Field("instructions", _text, (("instructions",),), nullable=True),
    _Field("voice", _voice, (("voice",), (*_OUTPUT, "voice")), nullable=True, droppable=True),
    _Field(
        "transcription",
        _object,
        (("input_audio_transcription",), (*_INPUT, "transcription")),
        nullable=True,
    ),
    _Field(
        "noise_reduction",
        _noise_reduction,
        (("input_audio_noise_reduction",), (*_INPUT, "noise_reduction")),
        nullable=True,
        droppable=True,
    ),
    _Field("tools", _tools, (("tools",),), nullable=True),
    _Field("tool_choice", _tool_choice, (("tool_choice",),), droppable=True),
    _Field("parallel_tool_calls", _flag, (("parallel_tool_calls",),), nullable=True),
    _Field("temperature", _number, (("temperature",),), nullable=True),
    _Field("max_tokens", _max_tokens, tuple((name,) for name in _TOKEN_NAMES), nullable=True),
    _Field("speed", _positive, (("speed",), (*_OUTPUT, "speed")), nullable=True),
    _Field("tracing", _tracing, (("tracing",),), nullable=True, droppable=True),
    _Field("metadata", _metadata, (("metadata",),)),
    _stored("include"),
    _stored("prompt"),
    _stored("reasoning"),
    _stored("truncation"),
    _Field("ref_audio", _ref_audio, (("ref_audio",),), nullable=True),
    _Field("initial_user_text", _text, (("initial_user_text",),), nullable=True),
    _Field("use_tts_template", _flag, (("use_tts_template",),)),
    _Field("idle_timeout_s", _positive, (("idle_timeout_s",),)),
    _Field("duplex_events", _duplex_events, (("duplex",),)),
    _also_extra("auto_response", _flag),
    _also_extra("overlap_policy", _overlap_policy),
    _also_extra("overlap_short_ack_ms", _milliseconds),
    _also_extra("overlap_barge_in_ms", _milliseconds),
    _also_extra("overlap_silence_rms", _not_below_zero),
    _also_extra("playback_commit_policy", _playback_policy),
)
_SHARED_WITH_EXTRA = frozenset(field.name for field in _FIELDS if field.paths[0][0] == "extra_body")


def is_private_extra(name: str) -> bool:
    """Whether a key of ``extra_body`` is the plugin's; the others are session fields."""
    return name not in _SHARED_WITH_EXTRA


class SessionReader:
    """One session object, read part by part in the order in which problems are reported.

    Args:
        session: what the client sent.
        code: error code for a value of the wrong type.
        protocol: formats and rates this connection may name.
        lenient: null is allowed anywhere, and names nobody knows are dropped.
    """

    def __init__(
        self,
        session: Mapping[str, Any],
        *,
        code: str,
        protocol: RealtimeProtocolCapabilities,
        lenient: bool,
    ) -> None:
        self._session = session
        self._code = code
        self._protocol = protocol
        self._lenient = lenient

    def input_format(self) -> AudioFormat:
        """What is said of the input format; an empty name and no rate where nothing is."""
        stated = self._format(
            (("input_audio_format",), (*_INPUT, "format")), self._protocol.input_formats
        )
        rate_paths: tuple[Path, ...] = (("sample_rate_hz",), (*_INPUT, "sample_rate_hz"))
        path, value = self._first(rate_paths)
        if value is None or value is _MISSING:
            return stated
        rate = parse_rate(value, param=_dotted(path), code=self._code)
        self._check_pcm_rate(stated.name or "pcm16", rate, _dotted(path))
        return AudioFormat(stated.name, rate)

    def output_format(self) -> AudioFormat:
        """What is said of the output format; an empty name and no rate where nothing is."""
        paths: tuple[Path, ...] = (
            ("output_audio_format",),
            (*_OUTPUT, "format"),
            ("response_format",),
        )
        return self._format(paths, self._protocol.output_formats)

    def turn_detection(self) -> tuple[bool, Any, str]:
        """Whether turn detection is mentioned, its value, and the path it stands at."""
        path, value = self._first((("turn_detection",), (*_INPUT, "turn_detection")))
        mentioned = value is not _MISSING
        return mentioned, value if mentioned else None, _dotted(path)

    def extra_body(self) -> dict[str, Any]:
        """The plugin's own keys; null resets one."""
        value = self._session.get("extra_body", {})
        if value is None and self._lenient:
            return {}
        if not isinstance(value, Mapping):
            raise self._refusal(("extra_body",), "must be an object")
        return {key: entry for key, entry in value.items() if is_private_extra(key)}

    def other_fields(self) -> dict[str, Any]:
        """All other fields that are present, by config name; None resets one."""
        kind = self._session.get("type", "realtime")
        if kind != "realtime" and not (kind is None and self._lenient):
            raise self._refusal(("type",), "must be realtime")
        found: dict[str, Any] = {}
        for field in _FIELDS:
            path, value = self._first(field.paths)
            if value is not _MISSING:
                self._read_field(field, path, value, found)
        return found

    def _read_field(self, field: _Field, path: Path, value: Any, found: dict[str, Any]) -> None:
        if value is None:
            if not (field.nullable or self._lenient):
                raise self._refusal(path, "must not be null")
            found[field.name] = None
            return
        try:
            found[field.name] = field.read(value)
        except _WrongValueError as problem:
            if not (self._lenient and field.droppable):
                raise self._refusal(path, str(problem), problem.code) from None

    def _format(self, paths: tuple[Path, ...], supported: frozenset[str]) -> AudioFormat:
        path, value = self._first(paths)
        if value is _MISSING or (value is None and self._lenient):
            return AudioFormat("")
        param = _dotted(path)
        stated = parse_audio_format(value, supported=supported, param=param, code=self._code)
        if stated.rate is not None:
            self._check_pcm_rate(stated.name, stated.rate, param)
        return stated

    def _check_pcm_rate(self, name: str, rate: int, param: str) -> None:
        only = self._protocol.pcm_rate
        if name == "pcm16" and only is not None and rate != only:
            raise DuplexConfigError(
                "unsupported_audio_format", f"{param}: PCM has {only} Hz here", param=param
            )

    def _first(self, paths: tuple[Path, ...]) -> tuple[Path, Any]:
        for path in paths:
            value = self._lookup(path)
            if value is not _MISSING:
                return path, value
        return paths[0], _MISSING

    def _lookup(self, path: Path) -> Any:
        place: Any = self._session
        for depth, name in enumerate(path):
            if place is None and (self._lenient or depth == 0):
                return _MISSING
            if not isinstance(place, Mapping):
                raise self._refusal(path[:depth], "must be an object")
            if name not in place:
                return _MISSING
            place = place[name]
        return place

    def _refusal(self, path: Path, problem: str, code: str | None = None) -> DuplexConfigError:
        param = _dotted(path)
        return DuplexConfigError(code or self._code, f"{param} {problem}", param=param)


def _dotted(path: Path) -> str:
    return ".".join(path)
