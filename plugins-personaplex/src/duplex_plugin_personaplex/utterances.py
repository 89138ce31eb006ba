"""Where an utterance begins and ends in a stream that never stops.

The model gives a frame of sound for each frame it hears, silence included. What a client is to
hear are its utterances. Two things tell them from silence: the text channel, which runs a little
ahead of the sound, and the sound's energy, with hysteresis:

* an utterance begins with a piece of text, or with the second of two frames in a row above
  ``BEGIN_DBFS``; the frame held back meanwhile is then its first;
* it ends when ``END_FRAMES`` frames in a row were below ``END_DBFS`` and brought no text.

The quiet frames inside an utterance belong to it: without them its pauses would be lost. Those
before it are nobody's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import DuplexDataPlane, DuplexModelSessionState, ModelResult, UnitBuffer
from duplex_sdk.stage import StageOutput

from .figures import FRAME_SAMPLES, RATE

__all__ = [
    "BEGIN_DBFS",
    "END_DBFS",
    "END_FRAMES",
    "PersonaPlexSessionState",
    "UtteranceDataPlane",
    "UtteranceGate",
    "level_dbfs",
]

BEGIN_DBFS = -40.0
END_DBFS = -45.0
END_FRAMES = 8

_LISTEN = ModelResult(listen=True)


def level_dbfs(audio: PcmChunk) -> float:
    """Root mean square of a frame in dB below full scale; -inf for digital silence."""
    samples = audio.numpy()
    power = float(samples @ samples) / max(1, samples.size)
    return 10 * math.log10(power) if power > 0 else -math.inf


class UtteranceGate:
    """One session's place between speech and silence."""

    def __init__(self) -> None:
        self._held: PcmChunk | None = None
        self._speaking = False
        self._quiet = 0

    @property
    def speaking(self) -> bool:
        """Whether an utterance is under way."""
        return self._speaking

    def frame(self, audio: PcmChunk, text: str) -> Iterable[ModelResult]:
        """What a frame means: speech, the end of it, or listening."""
        level = level_dbfs(audio)
        if not self._speaking:
            return self._outside(audio, text, level)
        self._quiet = self._quiet + 1 if level < END_DBFS and not text else 0
        ends = self._quiet >= END_FRAMES
        if ends:
            self._speaking, self._quiet = False, 0
        return (ModelResult(audio=audio, text=text or None, end_of_turn=ends),)

    def _outside(self, audio: PcmChunk, text: str, level: float) -> Iterable[ModelResult]:
        loud = level > BEGIN_DBFS
        held, self._held = self._held, None
        if text or (loud and held is not None):
            self._speaking, self._quiet = True, 0
            first = () if held is None else (ModelResult(audio=held),)
            return (*first, ModelResult(audio=audio, text=text.lstrip(" ") or None))
        if loud:
            self._held = audio
            return (ModelResult(listen=True, buffering=True),)
        return (_LISTEN,)


class PersonaPlexSessionState(DuplexModelSessionState):
    """Units of one frame, and the session's gate."""

    def __init__(self) -> None:
        super().__init__(UnitBuffer(FRAME_SAMPLES, RATE))
        self.gate = UtteranceGate()


class UtteranceDataPlane(DuplexDataPlane):
    """Cuts the endless output into utterances; each becomes one response.

    A cancel changes nothing here: the utterance under way goes on to its end unheard, and what is
    said after it is heard again.
    """

    def project(
        self, output: StageOutput, *, state: DuplexModelSessionState, context: object
    ) -> Iterable[ModelResult]:
        """The meaning of one frame."""
        if output.audio is None or not isinstance(state, PersonaPlexSessionState):
            return super().project(output, state=state, context=context)
        return state.gate.frame(output.audio, output.text or "")
