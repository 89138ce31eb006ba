"""The models, loaded once, and a bench that drives the three stages with a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

import numpy as np
import pytest
from duplex_plugin_local.model import INPUT_RATE, OUTPUT_RATE, LocalPlugin
from duplex_plugin_local.moonshine import Moonshine
from duplex_plugin_local.recogniser import Heard, Recogniser
from duplex_plugin_local.recogniser_stage import RecogniserStage
from duplex_plugin_local.reply_stage import ReplyStage
from duplex_plugin_local.speech import say
from duplex_plugin_local.speech_stage import SpeechStage
from duplex_plugin_local.voice import Voice
from duplex_sdk.audio import PcmChunk, resample
from duplex_sdk.stage import (
    LoadContext,
    StageInputContext,
    StageOutput,
    StagePrompt,
    StageSession,
    UnitRequest,
)
from duplex_sdk.stage.host import StageHost

UNIT = INPUT_RATE * 80 // 1000
NOON = datetime(2026, 11, 30, 15, 5)


@pytest.fixture(scope="session")
def moonshine() -> Moonshine:
    return Moonshine()


@pytest.fixture(scope="session")
def voice() -> Voice:
    return Voice()


@dataclass
class Bench:
    """Three stages and what goes between them, as the engine runs them; its clock stands still."""

    hosts: list[StageHost]
    outputs: list[tuple[int, StageOutput]] = field(default_factory=list)
    messages: list[Mapping[str, Any]] = field(default_factory=list)
    config: Mapping[str, Any] = field(default_factory=dict)
    now: float = 1000.0
    epoch: int = 0
    idle: set[int] = field(default_factory=set)
    _seq: Iterator[int] = field(default_factory=count)
    _memo: dict[int, dict[str, Any]] = field(default_factory=dict)

    def open(self, session_id: str = "one") -> None:
        for host in self.hosts:
            host.open(StageSession(session_id, config=self.config))

    def submit(self, prompt: StagePrompt, session_id: str = "one", stage: int = 0) -> None:
        self.idle.discard(stage)
        self.hosts[stage].units(
            [
                UnitRequest(
                    session_id, f"{session_id}-{self.epoch}", self.epoch, 1, next(self._seq), prompt
                )
            ]
        )

    def run(self, seconds: float = 0.0) -> None:
        """Step until nothing is due, moving the clock on to each tick up to so many seconds."""
        end = self.now + seconds
        while self.step_next(end):
            pass
        self.now = end

    def step_next(self, end: float | None = None) -> bool:
        """Do the next thing that is due until then; false when nothing is."""
        limit = self.now if end is None else end
        due = [(host.next_due(), stage) for stage, host in enumerate(self.hosts)]
        waiting = [(at, stage) for at, stage in due if at is not None and at <= limit]
        if waiting:
            at, stage = min(waiting)
            self.now = max(self.now, at)
            self._deliver(stage)
        return bool(waiting)

    def _deliver(self, stage: int) -> None:
        result = self.hosts[stage].step()
        assert not result.failed
        if result.idle:
            self.idle.add(stage)
        config = self.pipeline.stages[stage]
        for output in result.outputs:
            self.outputs.append((stage, output))
            if stage + 1 == len(self.hosts):
                continue
            context = StageInputContext(
                config, self.config, self.messages, self._memo.setdefault(stage, {})
            )
            for prompt in self.pipeline.stage_input(output, context):
                self.submit(prompt, output.session_id, stage + 1)

    def cancel(self, session_id: str = "one") -> None:
        self.epoch += 1
        self._memo.clear()
        for host in self.hosts:
            host.cancel(session_id, self.epoch, 0.0)

    @property
    def pipeline(self) -> Any:
        return LocalPlugin({}).pipeline()

    def hear(self, samples: np.ndarray, *, is_speech: bool | None = True) -> None:
        """Units of 80 ms, each stepped when it comes."""
        for start in range(0, len(samples), UNIT):
            piece = samples[start : start + UNIT]
            self.submit(StagePrompt(audio=PcmChunk.of(piece, INPUT_RATE), is_speech=is_speech))
            self.run(len(piece) / INPUT_RATE)

    def commit(self, *, respond: bool = True) -> None:
        self.submit(StagePrompt(final=True, respond=respond))
        self.run()

    def ask(self, text: str) -> None:
        """A turn without audio, to its end or its first wait."""
        self.submit_question(text)
        self.run()

    def submit_question(self, text: str) -> None:
        messages = (*self.messages, {"role": "user", "content": text})
        self.submit(StagePrompt(kind="conversation", messages=messages))

    @property
    def partials(self) -> list[str]:
        return [o.user_text for _, o in self.outputs if o.user_text and not o.user_text_final]

    @property
    def finals(self) -> list[str | None]:
        return [o.user_text for _, o in self.outputs if o.user_text_final]

    @property
    def spoken(self) -> list[StageOutput]:
        return [output for stage, output in self.outputs if stage == 2]

    @property
    def text(self) -> str:
        return "".join(output.text or "" for output in self.spoken)

    @property
    def turns_ended(self) -> int:
        return sum(output.end_of_turn for output in self.spoken)

    def audio(self) -> np.ndarray:
        return np.concatenate(
            [o.audio.numpy() for o in self.spoken if o.audio is not None] or [np.zeros(0)]
        )


@pytest.fixture
def make_bench(voice: Voice) -> Any:
    def make(
        recogniser: Recogniser,
        *,
        options: Mapping[str, Any] | None = None,
        speaker: Voice | None = None,
        **fields: Any,
    ) -> Bench:
        bench = Bench([], **fields)
        stages = (
            RecogniserStage(recogniser),
            ReplyStage(clock=lambda: NOON),
            SpeechStage(speaker or voice),
        )
        pipeline = LocalPlugin(options or {}).pipeline()
        for model, config in zip(stages, pipeline.stages, strict=True):
            host = StageHost(
                model,
                clock=lambda: bench.now,
                output_rate=OUTPUT_RATE,
                max_batch=config.max_batch,
            )
            host.load(LoadContext(options=config.options))
            bench.hosts.append(host)
        bench.open()
        return bench

    return make


class ScriptedRecogniser(Recogniser):
    """Says how long the audio was; counts its calls."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def recognise(self, samples: np.ndarray, draft: Sequence[int] = ()) -> Heard:
        self.calls.append(len(samples) * 1000 // INPUT_RATE)
        words = [
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ]
        return Heard(" ".join(words[: max(1, len(samples) * 2 // INPUT_RATE)]))


@pytest.fixture
def scripted() -> ScriptedRecogniser:
    return ScriptedRecogniser()


def at_input_rate(text: str) -> np.ndarray:
    """A sentence of the plugin's own voice as the recogniser hears it."""
    samples, rate = say(text)
    return resample(PcmChunk.of(samples, rate), INPUT_RATE).numpy()


@pytest.fixture(scope="session")
def spoken() -> Any:
    return at_input_rate
