"""Is this checkpoint on this machine what it should be? For the release on a GPU.

Three questions: is the checkpoint whole, does our stepper say what moshi's own generator says, and
is it quick enough for real time. The answers go into one file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from duplex_plugin_personaplex.figures import FRAME_SAMPLES, RATE
from duplex_plugin_personaplex.runtime.bench import BenchRow, machine, measure
from duplex_plugin_personaplex.runtime.loading import LoadedModel, load_model, plan_load
from duplex_plugin_personaplex.runtime.memory import release_memory
from duplex_plugin_personaplex.runtime.pieces import TextTokens
from duplex_plugin_personaplex.runtime.prompt import ReplayVoice, Voice, make_prompt
from duplex_plugin_personaplex.runtime.source import CheckpointFiles, find_checkpoint
from duplex_plugin_personaplex.runtime.stepper import FrameStepper, RowSampling
from duplex_plugin_personaplex.runtime.verification import verify_checkpoint
from duplex_plugin_personaplex.runtime.voice_bank import VoiceBank

from .reference import reference_frames

__all__ = ["Acceptance", "Comparison", "accept", "compare_with_reference"]

ROLE = "You are a wise and friendly teacher."


@dataclass(frozen=True, slots=True)
class Comparison:
    """Frame by frame against the reference.

    Attributes:
        frames: how many were compared.
        equal: how many had the same text and codes.
        first_difference: number of the first that had not; None: all had.
    """

    frames: int
    equal: int
    first_difference: int | None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The answers, and where they were found."""

    machine: dict[str, str]
    revision: str
    taken_at: str
    whole: bool
    problems: tuple[str, ...]
    comparison: Comparison | None
    rows: tuple[BenchRow, ...]

    def write(self, path: Path) -> None:
        """Put it into a file, as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def accept(
    checkpoint: str,
    *,
    device: str,
    dtype: str = "auto",
    frames: int = 125,
    batches: Sequence[int] = (1, 2, 4, 8),
    bench_frames: int = 3750,
) -> Acceptance:
    """Ask the three questions. Times nothing of a checkpoint that is not whole.

    Args:
        checkpoint: a folder or a hub id.
        device: ``cuda:0`` or ``cpu``.
        dtype: as the plugin's option.
        frames: to compare.
        batches: sizes to time.
        bench_frames: to time at each size; 3750 are five minutes.
    """
    files = find_checkpoint(checkpoint)
    report = verify_checkpoint(files.folder)
    comparison: Comparison | None = None
    rows: tuple[BenchRow, ...] = ()
    if report.ok:
        comparison = compare_with_reference(
            files, torch.device(device), _dtype(dtype, device), frames
        )
        release_memory()
        options: dict[str, Any] = {
            "checkpoint": str(files.folder),
            "frames": bench_frames,
            "device": device,
            "dtype": dtype,
            "prefill_frames": 32,
        }
        rows = tuple(measure(options, size) for size in batches)
    return Acceptance(
        machine=machine(device),
        revision=files.folder.name,
        taken_at=time.strftime("%Y-%m-%d"),
        whole=report.ok,
        problems=tuple(f"{check.name}: {check.detail}" for check in report.checks if not check.ok),
        comparison=comparison,
        rows=rows,
    )


def compare_with_reference(
    files: CheckpointFiles, device: torch.device, dtype: torch.dtype, frames: int
) -> Comparison:
    """Let both say greedily what they say to the same sound."""
    plan = plan_load(files, device=device, dtype=dtype, slots=1)
    model = load_model(plan, lambda fraction, text: None)
    voice = VoiceBank(files.voices, None, dim=model.sizes.dim).find("NATF2")
    assert isinstance(voice, ReplayVoice)
    role = TextTokens(files.text, model.sizes.text_card).role(ROLE)
    heard = _heard(model, device, frames)
    expected = list(reference_frames(model.lm, voice, role, heard))
    said = _said(model, voice, role, heard, device)
    same = [ours == theirs for ours, theirs in zip(said, expected, strict=True)]
    return Comparison(frames, sum(same), None if all(same) else same.index(False))


@torch.no_grad()
def _heard(model: LoadedModel, device: torch.device, frames: int) -> torch.Tensor:
    """Codes of a sound with the ups and downs of speech, ``[8, frames]``."""
    generator = torch.Generator().manual_seed(1)
    level = torch.rand(frames, generator=generator).repeat_interleave(FRAME_SAMPLES)
    pitch = 2 * torch.pi * 140 * torch.arange(frames * FRAME_SAMPLES) / RATE
    noise = torch.randn(frames * FRAME_SAMPLES, generator=generator)
    sound = 0.2 * level * (torch.sin(pitch) + 0.3 * noise)
    codes: torch.Tensor = model.mimi.encode(sound[None, None].to(device))
    return codes[0]


def _said(
    model: LoadedModel, voice: Voice, role: list[int], heard: torch.Tensor, device: torch.device
) -> list[list[int]]:
    active = torch.ones(1, dtype=torch.bool, device=device)
    stepper = FrameStepper(model.lm, 1, active)
    try:
        stepper.set_sampling(0, RowSampling(temperature=0.0, text_temperature=0.0))
        prompt = make_prompt(voice, role, text_card=model.sizes.text_card, card=model.sizes.card)
        if prompt.embeddings is not None:
            stepper.replay(0, prompt.embeddings)
        stepper.read(0, prompt.columns[:, :-1])
        stepper.begin(0, prompt)
        frames = (stepper.step(codes[None]) for codes in heard.T)
        return [[int(frame.text[0]), *frame.codes[0].tolist()] for frame in frames]
    finally:
        stepper.close()


def _dtype(name: str, device: str) -> torch.dtype:
    if name == "auto":
        return torch.bfloat16 if device.startswith("cuda") else torch.float32
    return {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}[name]
