"""Server-side turn detection: its figures, and how a client states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from duplex_sdk.protocol.duplex import Fields, RealtimeProtocolError

from .config_errors import DuplexConfigError

__all__ = ["TurnDetection"]

SERVER_VAD = "server_vad"
THRESHOLD_ABOVE = 0.15
MIN_SPEECH_FLOOR_MS = 32
"""One frame of the detector: less speech than that cannot be told from none."""

_LENIENT_TYPES = (SERVER_VAD, "semantic_vad")
_LENIENT_THRESHOLD = 0.16
"""Nearest threshold that works; OpenAI's range begins at 0."""

_NUMBERS = ("prefix_padding_ms", "silence_duration_ms", "min_speech_duration_ms")
_FLAGS = ("create_response", "interrupt_response")
_KEYS = frozenset({"type", "threshold", *_NUMBERS, *_FLAGS})


class TurnDetection(msgspec.Struct, frozen=True, kw_only=True):
    """A ``server_vad`` with the figures in force; milliseconds throughout.

    Attributes:
        threshold: probability from which a frame is speech; above 0.15, at most 1.
        prefix_padding_ms: so much before the speech belongs to the turn.
        silence_duration_ms: silence that ends the turn.
        min_speech_duration_ms: speech that begins one; at least one frame, 32.
        create_response: the end of a turn asks for an answer.
        interrupt_response: speech over a response may stop it.
    """

    threshold: float = 0.5
    prefix_padding_ms: float = 300
    silence_duration_ms: float = 500
    min_speech_duration_ms: float = 96
    create_response: bool = True
    interrupt_response: bool = True

    @classmethod
    def parse(
        cls,
        value: Any,
        *,
        base: TurnDetection | None = None,
        plugin_figures: Mapping[str, Any] | None = None,
        lenient: bool = False,
        param: str = "turn_detection",
    ) -> TurnDetection | None:
        """Read what a client says of turn detection.

        Args:
            value: the client's object; None switches detection off.
            base: what is in force: absent keys keep its figures, and it supplies the type.
            plugin_figures: the plugin's own defaults, for keys that are null or new.
            lenient: run ``semantic_vad`` as ``server_vad`` and ignore unknown keys.
            param: path of the field, for the error.

        Raises:
            DuplexConfigError: ``unsupported_turn_detection``; the message names the key.
        """
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise _refusal(param, "must be an object or null")
        _check_keys(value, base=base, lenient=lenient, param=param)
        defaults = cls(**(plugin_figures or {}))
        stated = _figures(Fields(value, path=param), param, lenient=lenient)
        reset = {
            name: getattr(defaults, name)
            for name in _KEYS - {"type"}
            if name in value and value[name] is None
        }
        merged = msgspec.structs.replace(base or defaults, **reset, **stated)
        floored = max(MIN_SPEECH_FLOOR_MS, merged.min_speech_duration_ms)
        return msgspec.structs.replace(merged, min_speech_duration_ms=floored)

    def to_realtime(self) -> dict[str, Any]:
        """The object as a session states it; whole milliseconds as integers."""
        shown: dict[str, Any] = {"type": SERVER_VAD}
        for name, value in msgspec.structs.asdict(self).items():
            whole = name in _NUMBERS and float(value).is_integer()
            shown[name] = int(value) if whole else value
        return shown


def _check_keys(
    value: Mapping[str, Any], *, base: TurnDetection | None, lenient: bool, param: str
) -> None:
    kind = value.get("type")
    if kind is None and base is None and not lenient:
        raise _refusal(param, "needs a type while no detection is on")
    if kind is not None and kind not in (_LENIENT_TYPES if lenient else (SERVER_VAD,)):
        raise _refusal(param, "must be of type server_vad, or null")
    unknown = sorted(str(key) for key in value if key not in _KEYS)
    if unknown and not lenient:
        raise _refusal(param, "has a key this server does not know")


def _figures(fields: Fields, param: str, *, lenient: bool) -> dict[str, Any]:
    try:
        stated: dict[str, Any] = {name: fields.number(name, at_least=0) for name in _NUMBERS}
        stated |= {name: fields.flag(name) for name in _FLAGS}
        threshold = fields.number("threshold")
    except RealtimeProtocolError as error:
        raise _refusal(param, f"is malformed: {error.message}") from None
    if threshold is not None:
        if lenient and 0 <= threshold <= THRESHOLD_ABOVE:
            threshold = _LENIENT_THRESHOLD
        if not THRESHOLD_ABOVE < threshold <= 1:
            raise _refusal(param, f"needs a threshold above {THRESHOLD_ABOVE} and at most 1")
        stated["threshold"] = threshold
    return {name: value for name, value in stated.items() if value is not None}


def _refusal(param: str, problem: str) -> DuplexConfigError:
    return DuplexConfigError("unsupported_turn_detection", f"{param} {problem}", param=param)
