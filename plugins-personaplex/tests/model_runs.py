"""Runs of the tiny model that several tests compare."""

from __future__ import annotations

from pathlib import Path

import torch

from duplex_plugin_personaplex.runtime.loading import LoadedModel, load_model, plan_load
from duplex_plugin_personaplex.runtime.prompt import Voice, make_prompt
from duplex_plugin_personaplex.runtime.source import find_checkpoint
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
