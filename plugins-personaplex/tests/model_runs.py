"""Runs of the tiny model that several tests compare."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import load_duplex_plugin
from duplex_sdk.stage import LoadContext, StageOutput, StagePrompt, StageSession, UnitRequest
from duplex_sdk.stage.host import StageHost
from numpy.typing import NDArray

from duplex_plugin_personaplex import plugin as descriptor
from duplex_plugin_personaplex.figures import FRAME_SAMPLES, RATE
from duplex_plugin_personaplex.runtime.loading import LoadedModel, load_model, plan_load
from duplex_plugin_personaplex.runtime.prompt import Voice, make_prompt
from duplex_plugin_personaplex.runtime.source import find_checkpoint
from duplex_plugin_personaplex.runtime.stage import FrameStage
from duplex_plugin_personaplex.runtime.stepper import FrameStepper, RowSampling


def load(folder: Path, *, slots: int = 8) -> LoadedModel:
    plan = plan_load(
        find_checkpoint(str(folder)),
        device=torch.device("cpu"),
        dtype=torch.float32,
        slots=slots,
    )
    return load_model(plan, lambda fraction, text: None)


def heard(frames: int, seed: int) -> torch.Tensor:
    return torch.randint(2048, (8, frames), generator=torch.Generator().manual_seed(seed))


def our_frames(
    model: LoadedModel,
    voice: Voice,
    role: list[int],
    caller: torch.Tensor,
    *,
    rows: int = 1,
    row: int = 0,
    slice_frames: int = 1000,
) -> list[list[int]]:
    active = torch.zeros(rows, dtype=torch.bool)
    stepper = FrameStepper(model.lm, rows, active)
    try:
        stepper.reset(row)
        stepper.set_sampling(row, RowSampling(temperature=0.0, text_temperature=0.0))
        prompt = make_prompt(voice, role, text_card=model.sizes.text_card, card=model.sizes.card)
        if prompt.embeddings is not None:
            for part in torch.split(prompt.embeddings, slice_frames):
                stepper.replay(row, part)
        for part in torch.split(prompt.columns[:, :-1], slice_frames, dim=1):
            stepper.read(row, part)
        stepper.begin(row, prompt)
        active[row] = True
        said = []
        for codes in caller.T:
            batch = torch.zeros(rows, 8, dtype=torch.long)
            batch[row] = codes
            frame = stepper.step(batch)
            said.append([int(frame.text[row]), *frame.codes[row].tolist()])
        return said
    finally:
        stepper.close()


class Bench:
    """A loaded stage behind the real host, on a clock that stands still."""

    def __init__(self, folder: Path, *, slots: int, **options: Any) -> None:
        plugin = load_duplex_plugin(
            descriptor, {"checkpoint": str(folder), "slots": slots, **options}
        )
        self.config = plugin.pipeline().stages[0]
        self.stage = FrameStage()
        self.host = StageHost(
            self.stage, clock=lambda: 0.0, output_rate=RATE, max_batch=self.config.max_batch
        )
        self.progress: list[tuple[float, str]] = []
        context = LoadContext(
            options=self.config.options,
            max_batch=slots,
            progress=lambda fraction, text: self.progress.append((fraction, text)),
        )
        self.info = self.host.load(context)
        self.failed: dict[str, str] = {}
        self._seq = count()

    def open(
        self, name: str, *, seed: int = 0, sampling: Mapping[str, Any] = {}, **runtime: Any
    ) -> None:
        runtime = {"voice": "NATF2", "role": "You are a friendly teacher.", **runtime}
        sampling = {**self.config.sampling, **sampling}
        self.host.open(StageSession(name, runtime=runtime, sampling=sampling, seed=seed))

    def frames(self, heard: Mapping[str, NDArray[np.float32]]) -> dict[str, StageOutput]:
        """One frame to each of these sessions, in one step."""
        for name, frame in heard.items():
            prompt = StagePrompt(audio=PcmChunk.of(frame, RATE))
            self.host.units([UnitRequest(name, f"{name}-0", 0, 1, next(self._seq), prompt)])
        said: dict[str, StageOutput] = {}
        while self.host.next_due() is not None:
            result = self.host.step()
            said |= {output.session_id: output for output in result.outputs}
            self.failed |= {name: error.message for name, error in result.failed}
        return said

    def talk(self, name: str, heard: NDArray[np.float32]) -> list[StageOutput]:
        """All of it, frame by frame."""
        return [self.frames({name: frame})[name] for frame in heard]

    def close(self, name: str) -> None:
        self.host.close(name)
        self.host.step()


def speech(frames: int, seed: int) -> NDArray[np.float32]:
    """Something to hear, ``[frames, 1920]``: noise with the ups and downs of speech."""
    rng = np.random.default_rng(seed)
    envelope = np.repeat(rng.uniform(0, 0.3, frames), FRAME_SAMPLES)
    noise = rng.standard_normal(frames * FRAME_SAMPLES) * envelope
    return noise.astype(np.float32).reshape(frames, FRAME_SAMPLES)


def said_by(outputs: list[StageOutput]) -> list[tuple[int, ...]]:
    return [output.token_ids for output in outputs]
