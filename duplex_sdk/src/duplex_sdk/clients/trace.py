"""A record of the last frames of a session, fit to be pasted into a report."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["Direction", "TracedFrame", "WireTrace"]

DEFAULT_TRACE_SIZE = 256
_MAX_TEXT = 200
_MAX_ENTRIES = 32
_MAX_DEPTH = 8
_SECRETS = ("token", "key", "authorization", "secret", "password")
"""What the names of secrets end with, whatever stands before it."""

_RECORDINGS = frozenset({"audio", "video_frames", "ref_audio", "image_url", "extra_body"})
_AUDIO_DELTAS = frozenset({"response.output_audio.delta", "input_audio_buffer.append"})


class Direction(Enum):
    """Which way a frame went."""

    SENT = "sent"
    RECEIVED = "received"


@dataclass(frozen=True, slots=True)
class TracedFrame:
    """One frame, as it may be shown.

    Attributes:
        at: seconds since the epoch.
        direction: which way it went.
        payload: what it said, without secrets, audio and pictures; long texts are cut.
    """

    at: float
    direction: Direction
    payload: Mapping[str, Any]


class WireTrace:
    """Keeps the newest frames of a session. Of the client's loop.

    Tokens and keys never enter it, audio and pictures only as their length. Texts do: what was
    said is in there, up to its first 200 characters a piece.

    Args:
        size: frames kept; 0 keeps none.
        clock: seconds since the epoch.
    """

    def __init__(
        self, size: int = DEFAULT_TRACE_SIZE, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._frames: deque[TracedFrame] = deque(maxlen=size)
        self._clock = clock

    def frames(self) -> tuple[TracedFrame, ...]:
        """What is kept, oldest first."""
        return tuple(self._frames)

    def sent(self, payload: Mapping[str, Any]) -> None:
        """Note a frame that is sent."""
        self._keep(Direction.SENT, payload)

    def received(self, payload: Mapping[str, Any]) -> None:
        """Note a frame that came."""
        self._keep(Direction.RECEIVED, payload)

    def _keep(self, direction: Direction, payload: Mapping[str, Any]) -> None:
        if self._frames.maxlen:
            shown = _shown(payload, _MAX_DEPTH)
            if "delta" in payload and payload.get("type") in _AUDIO_DELTAS:
                shown["delta"] = _length(payload.get("delta"))
            self._frames.append(TracedFrame(self._clock(), direction, shown))


def _shown(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else f"{value[:_MAX_TEXT]}... ({len(value)})"
    if isinstance(value, Mapping):
        if depth == 0:
            return _length(value)
        return {
            _shown(key, 0): _entry(key, entry, depth - 1) for key, entry in _first(value.items())
        }
    if isinstance(value, list | tuple):
        if depth == 0:
            return _length(value)
        return [_shown(entry, depth - 1) for entry in _first(value)]
    return value


def _entry(key: Any, value: Any, depth: int) -> Any:
    if isinstance(key, str) and key.casefold().endswith(_SECRETS):
        return "***"
    # A session's ``audio`` describes formats; a command's holds the sound itself.
    if key in _RECORDINGS and not (key == "audio" and isinstance(value, Mapping)):
        return _length(value)
    return _shown(value, depth)


def _first(entries: Iterable[Any]) -> list[Any]:
    return [entry for entry, _ in zip(entries, range(_MAX_ENTRIES), strict=False)]


def _length(value: Any) -> str:
    return f"<{len(value)}>" if hasattr(value, "__len__") else "<...>"
