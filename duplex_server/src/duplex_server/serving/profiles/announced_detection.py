"""What a stock client is told of turn detection by a model that cannot be interrupted.

No detector is run for such a model: it takes its turns and gives way by itself. A stock client
knows only ``server_vad`` and manual turns, and manual turns would be the wrong picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["announced_session", "asked_detection"]

_MODEL_TAKES_TURNS = {
    "type": "server_vad",
    "create_response": True,
    "interrupt_response": True,
}


def asked_detection(session: Mapping[str, Any]) -> bool | None:
    """Whether a session object asks for a detector; None when it says nothing of it."""
    audio = session.get("audio")
    audio_input = audio.get("input") if isinstance(audio, Mapping) else None
    for place in (session, audio_input):
        if isinstance(place, Mapping) and "turn_detection" in place:
            return place["turn_detection"] is not None
    return None


def announced_session(session: dict[str, Any], *, wanted: bool) -> dict[str, Any]:
    """The session object to show.

    Args:
        session: as the session renders it.
        wanted: False when the client asked for no detection.
    """
    capabilities = session.get("capabilities") or {}
    if not wanted or capabilities.get("supports_barge_in", True):
        return session
    audio = session.get("audio") or {}
    audio_input = audio.get("input") or {}
    if audio_input.get("turn_detection") is not None:
        return session
    audio_input = audio_input | {"turn_detection": dict(_MODEL_TAKES_TURNS)}
    return session | {"audio": audio | {"input": audio_input}}
