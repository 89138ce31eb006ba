"""What stages handed out, and how two tellings of the same differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import float32
from numpy.typing import NDArray

from duplex_sdk.stage import StageOutput

__all__ = ["Answer", "Said", "answer"]


@dataclass(frozen=True, slots=True)
class Said:
    """One output that left a stage.

    Attributes:
        stage: the stage's id.
        shown: it goes to the client.
        step: the number of the step that made it.
        at: seconds of the virtual clock.
        output: the output.
    """

    stage: str
    shown: bool
    step: int
    at: float
    output: StageOutput


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client would get of some outputs, however they were cut.

    Attributes:
        text: all text.
        audio: all samples.
        heard: the turns that the model understood; how it came to them in pieces is no promise.
        calls: tools it called.
        ends: how often the turn was ended.
        errors: failures, in words.
    """

    text: str
    audio: NDArray[float32]
    heard: tuple[str, ...]
    calls: tuple[str, ...]
    ends: int
    errors: tuple[str, ...]

    @property
    def says_something(self) -> bool:
        """Whether there is anything to hear, read or do."""
        return bool(self.text or self.audio.size or self.calls)

    def difference(self, other: Answer, tolerance: float) -> str | None:
        """How the other differs, in words; None: it does not.

        ``tolerance``: the largest difference between two samples that is none.
        """
        for name in ("text", "heard", "calls", "ends", "errors"):
            mine, others = getattr(self, name), getattr(other, name)
            if mine != others:
                return f"{name} is {others!r} instead of {mine!r}"
        if self.audio.size != other.audio.size:
            return f"{other.audio.size} samples of audio instead of {self.audio.size}"
        if not self.audio.size:
            return None
        distance = np.abs(self.audio - other.audio)
        worst = int(np.argmax(distance))
        if distance[worst] > tolerance:
            return f"sample {worst} is {other.audio[worst]:.4f} instead of {self.audio[worst]:.4f}"
        return None


def answer(said: Sequence[Said]) -> Answer:
    """Outputs put together."""
    outputs = [each.output for each in said]
    shown = [each.output for each in said if each.shown]
    samples = [output.audio.numpy() for output in shown if output.audio is not None]
    return Answer(
        text="".join(output.text or "" for output in shown),
        audio=np.concatenate(samples) if samples else np.zeros(0, float32),
        heard=_heard(outputs),
        calls=tuple(
            f"{output.tool_call.name}({output.tool_call.arguments})"
            for output in shown
            if output.tool_call is not None
        ),
        ends=sum(output.end_of_turn for output in shown),
        errors=tuple(output.error.message for output in outputs if output.error is not None),
    )


def _heard(outputs: Sequence[StageOutput]) -> tuple[str, ...]:
    """Whole turns where the model tells them, else all pieces together."""
    told = [output for output in outputs if output.user_text]
    whole = tuple(output.user_text or "" for output in told if output.user_text_final)
    pieces = "".join(output.user_text or "" for output in told)
    return whole or ((pieces,) if pieces else ())
