"""The stage that hears: units of 80 ms in, what the user says out.

While a turn is under way it recognises the growing utterance every half second for the partial
transcript. As soon as the speaker pauses it recognises it for good, on the chance that the turn is
over, and lets the next stages rehearse the answer; when speech returns that guess is forgotten. So
at the end of a turn the words are mostly there, and the first sentence of the answer is spoken.

Recognising takes 20 to 300 ms, and a step sends its outputs when it ends. So one step recognises
for one session only: the one whose answer is waited for most. The others ask to be called again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np
from duplex_sdk.stage import (
    LoadContext,
    StageInfo,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
)

from .hypotheses import GrowingTranscript
from .moonshine import Moonshine
from .recogniser import Recogniser
from .routing import REHEARSE
from .utterance import Utterance

__all__ = ["Hearing", "RecogniserStage", "Work"]

PARTIAL_MS = 500
SPECULATE_AFTER_MS = 150
# Recognising costs more than in proportion to the length, so a long turn is cut at a pause.
SEGMENT_MS = 12_000
SEGMENT_FROM_MS = 7_000
# The partials of long audio come less often, so that they never take half of a core.
_PARTIAL_SHARE = 0.15
_SWITCH_INTERVAL_S = 2e-4


class Work(IntEnum):
    """What a session waits for; the smaller the more urgent."""

    FINAL = 0
    SPECULATIVE = 1
    SEGMENT = 2
    PARTIAL = 3
    NOTHING = 4


class Hearing:
    """What the stage knows of one session's turn under way."""

    def __init__(self) -> None:
        self.utterance = Utterance(Moonshine.rate)
        self.transcript = GrowingTranscript()
        self.clear()

    def clear(self) -> None:
        """The turn is over or forgotten."""
        self.utterance.clear()
        self.transcript.clear()
        self.finished = ""
        self.final: StageUnit[Hearing] | None = None
        self.partial_at_ms = float(PARTIAL_MS)
        self.guess: tuple[float, str] | None = None

    @property
    def guessed(self) -> str | None:
        """The words, when nothing was said since they were recognised."""
        if self.guess is None or self.guess[0] != self.utterance.loud_until_ms:
            return None
        return self.guess[1]

    def work(self) -> Work:
        """The most urgent thing to do."""
        if self.final is not None:
            return Work.FINAL
        if not self.utterance.has_speech:
            return Work.NOTHING
        if self.utterance.silence_ms >= SPECULATE_AFTER_MS and self.guessed is None:
            return Work.SPECULATIVE
        if self.utterance.duration_ms >= SEGMENT_MS:
            return Work.SEGMENT
        if self.utterance.duration_ms >= self.partial_at_ms and self.guessed is None:
            return Work.PARTIAL
        return Work.NOTHING


class RecogniserStage(StageModel[Hearing]):
    """English speech recognition for many sessions on one thread."""

    def __init__(self, recogniser: Recogniser | None = None) -> None:
        """``recogniser``: used instead of loading the model."""
        self._loaded = recogniser

    def load(self, context: LoadContext) -> StageInfo:
        """Check and load the model, and let it recognise once.

        Raises:
            StageLoadError: a file of the model is missing or wrong.
        """
        # With the default 5 ms between thread switches, sixteen sessions waited for each other
        # for a second: the threads of these stages hold the interpreter while they loop.
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL_S))
        if self._loaded is None:
            context.progress(0.0, "checking the recogniser")
            self._loaded = Moonshine()
            self._loaded.transcribe(np.zeros(Moonshine.rate, np.float32))
        context.progress(1.0, "recogniser ready")
        return StageInfo(memory_bytes=200 << 20)

    def open(self, session: StageSession) -> Hearing:
        """A session that has heard nothing."""
        return Hearing()

    def cancel(self, state: Hearing, epoch: int, heard_ms: float) -> None:
        """Drop the unfinished turn; its units come again in the new epoch."""
        state.clear()

    def step(self, units: Sequence[StageUnit[Hearing]], now: float) -> Iterable[StageOutput]:
        """Take the input of all, then recognise for the one that is waited for most."""
        outputs: list[StageOutput] = []
        waiting: list[tuple[Work, StageUnit[Hearing]]] = []
        for unit in units:
            outputs.extend(_take(unit))
            work = unit.state.work()
            if work is not Work.NOTHING:
                waiting.append((work, unit))
        if waiting:
            chosen = min(waiting, key=lambda each: each[0])
            outputs.extend(self._carry_out(*chosen))
            # Unless they are more urgent than partials, the others try again with their next unit:
            # on a busy machine partial transcripts thin out before anything is late.
            outputs.extend(
                unit.output(again_ms=0)
                for work, unit in waiting
                if unit is not chosen[1] and work < Work.SEGMENT
            )
        return outputs

    def _carry_out(self, work: Work, unit: StageUnit[Hearing]) -> list[StageOutput]:
        try:
            if work is Work.FINAL:
                return self._finish(unit.state)
            if work is Work.SEGMENT:
                return self._segment(unit)
            return self._listen(unit, speculative=work is Work.SPECULATIVE)
        except Exception as error:
            # A step that raised would end every session of the batch.
            final, unit.state.final = unit.state.final, None
            return [(final or unit).failed("runtime_append_failed", f"recognition failed: {error}")]

    def _listen(self, unit: StageUnit[Hearing], *, speculative: bool) -> list[StageOutput]:
        hearing = unit.state
        utterance = hearing.utterance
        loud_until = utterance.loud_until_ms
        text = self._transcribe(hearing)
        if speculative:
            hearing.guess = (loud_until, text)
        hearing.partial_at_ms = utterance.duration_ms + max(
            PARTIAL_MS, utterance.duration_ms * _PARTIAL_SHARE
        )
        new = hearing.transcript.grow(text) or None
        if speculative and text:
            return [unit.output(user_text=new, text=text, data={REHEARSE: True})]
        return [unit.output(user_text=new)] if new else []

    def _segment(self, unit: StageUnit[Hearing]) -> list[StageOutput]:
        hearing = unit.state
        front = hearing.utterance.split(SEGMENT_FROM_MS)
        hearing.finished = _join(hearing.finished, self._recogniser.transcribe(front))
        hearing.guess = None
        hearing.partial_at_ms = hearing.utterance.duration_ms + PARTIAL_MS
        new = hearing.transcript.grow(hearing.finished)
        return [unit.output(user_text=new)] if new else []

    def _finish(self, hearing: Hearing) -> list[StageOutput]:
        unit = hearing.final
        assert unit is not None
        text = hearing.guessed
        if text is None:
            text = self._transcribe(hearing) if hearing.utterance.has_speech else hearing.finished
        hearing.clear()
        respond = unit.prompt.respond
        return [
            unit.output(
                user_text=text,
                user_text_final=True,
                text=text if respond else None,
                end_of_turn=respond,
            )
        ]

    def _transcribe(self, hearing: Hearing) -> str:
        return _join(hearing.finished, self._recogniser.transcribe(hearing.utterance.samples()))

    @property
    def _recogniser(self) -> Recogniser:
        assert self._loaded is not None, "load comes first"
        return self._loaded


def _take(unit: StageUnit[Hearing]) -> Iterable[StageOutput]:
    """Put a unit's input where it belongs; a turn without audio goes straight on."""
    prompt, hearing = unit.prompt, unit.state
    if prompt.kind == "discard":
        hearing.clear()
    elif prompt.kind == "conversation":
        messages = [dict(message) for message in prompt.messages]
        yield unit.output(data={"messages": messages}, end_of_turn=True)
    elif prompt.kind == "audio":
        if prompt.audio is not None:
            hearing.utterance.add(prompt.audio, padding=prompt.padding, is_speech=prompt.is_speech)
        if prompt.final:
            hearing.final = unit


def _join(front: str, rest: str) -> str:
    return f"{front} {rest}".strip()
