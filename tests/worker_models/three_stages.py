"""A plugin of three light stages, each fit to run anywhere: words, their codes, their sound."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import DuplexCapabilities, DuplexModelPlugin, PluginSpec
from duplex_sdk.stage import (
    Array,
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
)

RATE = 24_000
WORDS = ("one ", "two ", "three")
LETTER_MS = 10

spec = PluginSpec(
    name="three-stages",
    api="1.0",
    factory="three_stages:ThreeStages",
    output_sample_rate=RATE,
    max_sessions=64,
)


class ThreeStages(DuplexModelPlugin):
    """Answers every committed turn with the same words."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.turn_based(
            output_sample_rate_hz=RATE, supports_chat_completions=True
        )

    def pipeline(self) -> PipelineConfig:
        return PipelineConfig(
            stages=tuple(
                StageConfig(name, model=f"three_stages:{name.title()}")
                for name in ("text", "tone", "codec")
            ),
            turn_requests=True,
        )


class _Stage(StageModel[list[int]]):
    """Its state of a session is the turns it saw there."""

    def load(self, context: LoadContext) -> StageInfo:
        if Path(context.options.get("die_at", "/no/such/marker")).exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return StageInfo(context.device)

    def open(self, session: StageSession) -> list[int]:
        return []


class Text(_Stage):
    """Says a word per step, so that an answer is under way for a while."""

    def step_unit(self, unit: StageUnit[list[int]], now: float) -> Iterable[StageOutput]:
        left = unit.state
        if unit.prompt.final and unit.prompt.respond:
            left[:] = range(len(WORDS))
        if not left:
            return []
        word = WORDS[left.pop(0)]
        if left:
            return [unit.output(text=word, again_ms=0)]
        return [unit.output(text=word, end_of_turn=True)]

    def cancel(self, state: list[int], epoch: int, heard_ms: float) -> None:
        state.clear()


class Tone(_Stage):
    """Makes a code of each letter."""

    def step_unit(self, unit: StageUnit[list[int]], now: float) -> Iterable[StageOutput]:
        text = unit.prompt.text or ""
        codes = Array(text.encode(), "uint8", (len(text),))
        return [
            unit.output(text=text, arrays={"codes": codes}, end_of_turn=unit.prompt.final),
        ]


class Codec(_Stage):
    """Makes a sound of each code; a batch at once."""

    def step(self, units: Any, now: float) -> Iterable[StageOutput]:
        for unit in units:
            codes = unit.prompt.arrays["codes"].data
            audio = PcmChunk.of(np.concatenate([_sound(code) for code in codes]), RATE)
            yield unit.output(text=unit.prompt.text, audio=audio, end_of_turn=unit.prompt.final)


def _sound(code: int) -> Any:
    count = RATE * LETTER_MS // 1000
    return np.sin(np.arange(count, dtype=np.float32) * (2 * math.pi * code * 4 / RATE))
