"""Whether one append is speech, and how long it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duplex_sdk.audio import PcmChunk
    from duplex_sdk.protocol.duplex import AppendAudio

    from .inputs import SpeechVerdict

__all__ = ["classify_speech", "speech_duration_ms"]

SPEECH_PROBABILITY = 0.5


def classify_speech(
    command: AppendAudio, verdict: SpeechVerdict, audio: PcmChunk | None, *, silence_rms: float
) -> bool:
    """Decide by the first that knows: detector, client, loudness.

    Args:
        command: the append, for what the client says about it.
        verdict: what the detector and the decoder found.
        audio: the decoded samples, None without any.
        silence_rms: from this root mean square on audio is no silence, full scale 1.0.

    Returns:
        True also when nothing can tell: audio is kept when in doubt.
    """
    if verdict.is_speech is not None:
        return verdict.is_speech
    said = _client_verdict(command)
    if said is not None:
        return said
    if audio is None or not audio.data:
        return False
    return verdict.rms is None or verdict.rms >= silence_rms


def speech_duration_ms(command: AppendAudio, audio: PcmChunk | None) -> int:
    """Length of an append in whole ms: as the client states it, else of its samples, else 0."""
    if command.duration_ms is not None:
        return max(0, command.duration_ms)
    return 0 if audio is None else int(audio.duration_ms)


def _client_verdict(command: AppendAudio) -> bool | None:
    hints = command.hints
    for stated in (command.is_speech, hints.speech):
        if stated is not None:
            return stated
    by_vad = _vad_verdict(hints.vad) if hints.vad else None
    if by_vad is not None:
        return by_vad
    return _likely(hints.speech_probability)


def _vad_verdict(vad: Mapping[str, Any]) -> bool | None:
    stated = vad.get("is_speech")
    if isinstance(stated, bool):
        return stated
    return _likely(vad.get("speech_probability", vad.get("probability")))


def _likely(probability: Any) -> bool | None:
    if isinstance(probability, bool) or not isinstance(probability, int | float):
        return None
    return probability >= SPEECH_PROBABILITY
