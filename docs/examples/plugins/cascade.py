"""A cascade: a recogniser, a writer and a voice, each a stage of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import DuplexCapabilities, DuplexModelPlugin, PluginSpec
from duplex_sdk.stage import (
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageInputContext,
    StageModel,
    StageOutput,
    StagePrompt,
    StageSession,
    StageUnit,
    sentences,
    whole,
)

RATE = 24_000

plugin = PluginSpec(name="cascade", api="1.0", factory="cascade:Cascade", max_sessions=8)


def between(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    """The words heard go on as a whole, the words written sentence by sentence."""
    return whole(output, context) if context.stage.id == "ear" else sentences(output, context)


class Cascade(DuplexModelPlugin):
    """Three stages in a row; the last one's output is what the client hears."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.turn_based(supports_multi_session=True)

    def pipeline(self) -> PipelineConfig:
        return PipelineConfig(
            stages=(
                StageConfig("ear", "cascade:Ear"),
                StageConfig("writer", "cascade:Writer"),
                StageConfig("voice", "cascade:Voice"),
            ),
            stage_input=between,
        )


class Ear(StageModel[None]):
    """Hears a whole turn and says what it was."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> None:
        return None

    def step_unit(self, unit: StageUnit[None], now: float) -> Iterable[StageOutput]:
        audio = unit.prompt.audio
        heard = "nothing" if audio is None else f"{audio.duration_ms:.0f} milliseconds"
        yield unit.output(user_text=heard, user_text_final=True)
        if unit.prompt.respond:
            yield unit.output(text=heard, end_of_turn=True)


@dataclass
class Draft:
    """What the writer has not written yet."""

    words: deque[str] = field(default_factory=deque)


class Writer(StageModel[Draft]):
    """Writes an answer word by word, as a language model does."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> Draft:
        return Draft()

    def step_unit(self, unit: StageUnit[Draft], now: float) -> Iterable[StageOutput]:
        words = unit.state.words
        if unit.prompt.text:
            words.extend(f"You spoke for {unit.prompt.text}. That is all I know.".split())
        if words:
            word = words.popleft()
            # 0: again, as soon as the other sessions have had their turn.
            again = 0 if words else None
            yield unit.output(text=f"{word} ", end_of_turn=not words, again_ms=again)

    def cancel(self, state: Draft, epoch: int, heard_ms: float) -> None:
        state.words.clear()


class Voice(StageModel[None]):
    """Speaks a sentence as soon as it is written; the next ones are still being thought of."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> None:
        return None

    def step_unit(self, unit: StageUnit[None], now: float) -> Iterable[StageOutput]:
        text = unit.prompt.text or ""
        audio = hum(60 * len(text)) if text else None
        yield unit.output(text=f"{text} ", audio=audio, end_of_turn=unit.prompt.final)


def hum(ms: int) -> PcmChunk:
    """So many milliseconds of a voice that has no words yet."""
    time = np.arange(RATE * ms // 1000) / RATE
    return PcmChunk.of(0.2 * np.sin(2 * np.pi * 180 * time), RATE)
