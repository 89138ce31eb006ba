"""One answer under way: which samples, words and marks each piece of it has."""

from __future__ import annotations

import math
import random

from duplex_sdk.audio.chunk import PcmChunk
from duplex_sdk.stage import OutputFields
from duplex_sdk.testing.counter_audio import CounterAudio
from duplex_sdk.testing.signals import noise, tone

from .script import Answer, Script

__all__ = ["Speech"]


class Speech:
    """An answer, given out in pieces of one unit.

    Attributes:
        due: when the next piece may be said: seconds of the host's clock, or ms of the input clock
            for a native model.
        endless: it never ends by itself.
    """

    def __init__(
        self, answer: Answer, script: Script, *, text: str, who: tuple[int, int], due: float
    ) -> None:
        """``text``: what is said; ``who``: ordinals of session and response."""
        self.due, self.endless = due, False
        self._answer, self._script, self._who = answer, script, who
        self._unit = script.unit_ms * script.out_rate // 1000
        self._total = 0 if answer.audio == "none" else round(answer.ms * script.out_rate / 1000)
        self._sent = 0
        parts = text.split(" ") if answer.words and self._total else [text]
        self._words = [
            (f" {part}" if place else part, answer.ms * (place + 1) / len(parts))
            for place, part in enumerate(parts)
            if text
        ]
        self._counter = CounterAudio(script.out_rate)
        self._jitter = random.Random(f"{script.seed}/{who[1]}")

    @property
    def over(self) -> bool:
        """Whether everything was said."""
        return self._sent >= self._total and not self._words and not self.endless

    def pause_ms(self) -> float:
        """How long after this piece the next one is due."""
        return self._script.unit_ms + self._jitter.random() * self._script.jitter_ms

    def next_piece(self) -> OutputFields:
        """The next unit of audio with the words that end in it."""
        start = self._sent
        count = self._unit if self.endless else min(self._unit, self._total - start)
        self._sent += count
        rate = self._script.out_rate
        end_ms = math.inf if self._sent >= self._total else self._sent * 1000 / rate
        text, marks = "", []
        while self._words and self._words[0][1] <= end_ms:
            word, ends_at = self._words.pop(0)
            text += word
            marks.append((len(text), ends_at - start * 1000 / rate))
        if not count:
            return {"text": text, "marks": (), "end_of_turn": self.over}
        audio = self._samples(start, count, rate)
        return {"audio": audio, "text": text, "marks": tuple(marks), "end_of_turn": self.over}

    def _samples(self, start: int, count: int, rate: int) -> PcmChunk:
        kind = self._answer.audio
        if kind == "counter":
            return self._counter.write(*self._who, start, count)
        if kind == "tone":
            return tone(self._answer.hz, start, count, rate)
        if kind == "noise":
            return noise((abs(self._script.seed), self._who[1], start), count, rate)
        return PcmChunk.silence(count, rate)
