"""The stage that hears: units of 80 ms in, what the user says out.

While a turn is under way it recognises the growing utterance every half second for the partial
transcript. As soon as the speaker pauses it recognises it for good, on the chance that the turn is
over, and lets the next stages rehearse the answer; when speech returns that guess is forgotten. So
at the end of a turn the words are mostly there, and the first sentence of the answer is spoken.

Recognising takes 20 to 300 ms, and a step sends its outputs when it ends. So one step recognises
for one session only, the one whose answer is waited for most, and only when no new input is there.
Who waits asks to be called again.
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
SEGMENT_TO_MS = 20_000
LONGEST_MS = 24_000
# For each ms of recognition partials wait so many: they take a fifth of the thread at most.
_REST = 4
# So many units of one session may wait at a stage, says the contract.
CREDIT = 2
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
        self.draft: tuple[int, ...] = ()
        self.final: StageUnit[Hearing] | None = None
        self.partial_at_ms = float(PARTIAL_MS)
        self.guess: tuple[float, str] | None = None

    @property
    def guessed(self) -> str | None:
        """The words, when nothing was said since they were recognised."""
        if self.guess is None or self.guess[0] != self.utterance.loud_until_ms:
            return None
        return self.guess[1]

    @property
    def is_settled(self) -> bool:
        """The turn has ended and its words are known."""
        known = not self.utterance.has_speech or self.guessed is not None
        return self.final is not None and known

    @property
    def is_pressing(self) -> bool:
        """Something must be recognised, whatever it takes."""
        return self.work() < Work.PARTIAL

    def work(self) -> Work:
        """The most urgent thing to do."""
        if self.final is not None:
            # A turn that came in one piece may be longer than the model takes.
            is_long = self.utterance.duration_ms > LONGEST_MS
            return Work.SEGMENT if is_long else Work.FINAL
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
        self._worked_at: float | None = None
        self._partials_from = 0.0
        self._steps_of_input = 0

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
        """Take new input, or, when none is there, recognise for the one who waits for it most.

        Input goes first because a step takes one unit of each session: if every step recognised,
        units would come faster than they are taken.
        """
        self._note_cost(now)
        outputs: list[StageOutput] = []
        for unit in units:
            outputs.extend(_take(unit))
            if unit.state.is_settled:
                outputs.append(_finish(unit.state))
        waiting = [unit for unit in units if unit.state.work() is not Work.NOTHING]
        if self._input_goes_first(units):
            outputs.extend(unit.output(again_ms=0) for unit in waiting)
            return outputs
        chosen = min(waiting, key=lambda unit: unit.state.work(), default=None)
        if chosen is not None and self._has_time_for(chosen.state.work(), now):
            outputs.extend(self._carry_out(chosen))
            self._worked_at = now
        # Partial transcripts that found no time wait for the next unit: on a busy machine they
        # thin out before anything is late.
        outputs.extend(unit.output(again_ms=0) for unit in waiting if unit.state.is_pressing)
        return outputs

    def _input_goes_first(self, units: Sequence[StageUnit[Hearing]]) -> bool:
        brings_input = any(unit.prompt.kind != "tick" for unit in units)
        self._steps_of_input = self._steps_of_input + 1 if brings_input else 0
        if self._steps_of_input > CREDIT:
            # All that had come during the last recognition is taken by now; with very many
            # sessions something new is always there.
            self._steps_of_input = 0
            return False
        return brings_input

    def _note_cost(self, now: float) -> None:
        """Let partials rest after each recognition, so that they never take more than their part.

        With sixteen speakers at once what decides about an answer then still finds the thread free.
        """
        if self._worked_at is not None:
            self._partials_from = now + _REST * (now - self._worked_at)
            self._worked_at = None

    def _has_time_for(self, work: Work, now: float) -> bool:
        return work is not Work.PARTIAL or now >= self._partials_from

    def _carry_out(self, unit: StageUnit[Hearing]) -> list[StageOutput]:
        hearing, work = unit.state, unit.state.work()
        try:
            if work is Work.SEGMENT:
                return self._segment(unit)
            if work is not Work.FINAL:
                return self._listen(unit, speculative=work is Work.SPECULATIVE)
            hearing.guess = (hearing.utterance.loud_until_ms, self._transcribe(hearing))
            return [_finish(hearing)]
        except Exception as error:
            # A step that raised would end every session of the batch.
            final, hearing.final = hearing.final, None
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
        front = hearing.utterance.split(SEGMENT_FROM_MS, SEGMENT_TO_MS)
        heard = self._recogniser.recognise(front, hearing.draft)
        hearing.finished = _join(hearing.finished, heard.text)
        hearing.draft = ()
        hearing.guess = None
        hearing.partial_at_ms = hearing.utterance.duration_ms + PARTIAL_MS
        new = hearing.transcript.grow(hearing.finished)
        return [unit.output(user_text=new)] if new else []

    def _transcribe(self, hearing: Hearing) -> str:
        heard = self._recogniser.recognise(hearing.utterance.samples(), hearing.draft)
        hearing.draft = heard.tokens
        return _join(hearing.finished, heard.text)

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


def _finish(hearing: Hearing) -> StageOutput:
    """The transcript of a settled turn; with it the question, if an answer is wanted."""
    unit = hearing.final
    assert unit is not None, "only a settled turn is finished"
    text = hearing.guessed if hearing.utterance.has_speech else hearing.finished
    hearing.clear()
    respond = unit.prompt.respond
    return unit.output(
        user_text=text,
        user_text_final=True,
        text=text if respond else None,
        end_of_turn=respond,
    )


def _join(front: str, rest: str) -> str:
    return f"{front} {rest}".strip()
