"""One answer under way: which samples, words and marks each piece of it has."""

from __future__ import annotations

import math
import random
import zlib
from typing import Any

import numpy as np

from duplex_sdk.audio.chunk import PcmChunk
from duplex_sdk.stage import OutputFields
from duplex_sdk.testing.counter_audio import CounterAudio

from .script import Answer, Script

__all__ = ["Speech", "describe_input"]

_AMPLITUDE = 0.25


class Speech:
    """An answer cut into pieces of one unit.

    Attributes:
        due: when the next piece may be said, in seconds of the host's clock, or in ms of the input
            clock for a native model.
        endless: it never ends by itself.
    """

    def __init__(
        self, answer: Answer, script: Script, *, text: str, session: int, ordinal: int, due: float
    ) -> None:
        """``ordinal``: of the response in the session; ``text``: what is said."""
        self.due = due
        self.endless = False
        self._answer = answer
        self._script = script
        self._session = session
        self._ordinal = ordinal
        self._audio = CounterAudio(script.out_rate) if answer.audio == "counter" else None
        self._unit = script.unit_ms * script.out_rate // 1000
        self._total = 0 if answer.audio == "none" else round(answer.ms * script.out_rate / 1000)
        self._sent = 0
        self._words = self._timed_words(text)
        self._jitter = random.Random(f"{script.seed}/{ordinal}")

    @property
    def over(self) -> bool:
        """Whether everything was said."""
        return self._sent >= self._total and not self._words and not self.endless

    def pause_ms(self) -> float:
        """How long after this piece the next one is due."""
        return self._script.unit_ms + self._jitter.random() * self._script.jitter_ms

    def next_piece(self) -> OutputFields:
        """The next unit of audio with the words that end in it."""
        count = self._unit if self.endless else min(self._unit, self._total - self._sent)
        start_ms = self._sent * 1000 / self._script.out_rate
        end = self._sent + count
        end_ms = math.inf if end >= self._total else end * 1000 / self._script.out_rate
        text, marks = "", []
        while self._words and self._words[0][1] <= end_ms:
            word, ends_ms = self._words.pop(0)
            text += word
            marks.append((len(text), ends_ms - start_ms))
        piece: OutputFields = {"marks": tuple(marks)} if count else {"marks": ()}
        if count:
            piece["audio"] = self._samples(self._sent, count)
        if text:
            piece["text"] = text
        self._sent = end
        if self.over:
            piece["end_of_turn"] = True
        return piece

    def _timed_words(self, text: str) -> list[tuple[str, float]]:
        if not text:
            return []
        if not self._answer.words or not self._total:
            return [(text, self._answer.ms if self._total else 0.0)]
        words = [part if i == 0 else f" {part}" for i, part in enumerate(text.split(" "))]
        return [(word, self._answer.ms * i / len(words)) for i, word in enumerate(words, start=1)]

    def _samples(self, start: int, count: int) -> PcmChunk:
        rate = self._script.out_rate
        if self._audio is not None:
            return self._audio.write(self._session, self._ordinal, start, count)
        if self._answer.audio == "tone":
            time = np.arange(start, start + count, dtype=np.float64) / rate
            return PcmChunk.of(_AMPLITUDE * np.sin(2 * np.pi * self._answer.hz * time), rate)
        if self._answer.audio == "noise":
            generator = np.random.default_rng((abs(self._script.seed), self._ordinal, start))
            return PcmChunk.of(generator.uniform(-_AMPLITUDE, _AMPLITUDE, count), rate)
        return PcmChunk.silence(count, rate)


def describe_input(pieces: list[bytes], rate: int) -> str:
    """What was heard: length, checksum of its PCM16, and the loudest frequency."""
    samples: Any = np.frombuffer(b"".join(pieces), dtype="<f4")
    pcm = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2")
    peak = 0
    if samples.any():
        peak = round(float(np.argmax(np.abs(np.fft.rfft(samples)))) * rate / samples.size)
    ms = samples.size * 1000 // rate
    checksum = zlib.crc32(pcm.tobytes())
    return f"heard {ms} ms, {samples.size} samples, crc32 {checksum:08x}, peak {peak} Hz"
