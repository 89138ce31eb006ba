"""Is this checkpoint on this machine what it should be? For the release on a GPU.

Four questions: is the checkpoint whole, does our stepper say what moshi's own generator says, does
the whole stage say what it said when that was recorded, and is it quick enough for real time. The
answers go into one file, what was said into another.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from duplex_plugin_personaplex.runtime.bench import (
    BenchRow,
    machine,
    measure_sizes,
    sessions_in_real_time,
)
from duplex_plugin_personaplex.runtime.loading import (
    LoadedModel,
    load_model,
    plan_load,
    weights_dtype,
)
from duplex_plugin_personaplex.runtime.memory import release_memory
from duplex_plugin_personaplex.runtime.pieces import TextTokens
from duplex_plugin_personaplex.runtime.prompt import ReplayVoice, Voice, make_prompt
from duplex_plugin_personaplex.runtime.source import CheckpointFiles, find_checkpoint
from duplex_plugin_personaplex.runtime.stepper import FrameStepper, RowSampling
from duplex_plugin_personaplex.runtime.verification import verify_checkpoint
from duplex_plugin_personaplex.runtime.voice_bank import VoiceBank

from .golden import (
    RELEASE_GOLDEN,
    ROLE,
    VOICE,
    Golden,
    record,
    sound_for_tests,
    tensor_list,
)
from .reference import reference_frames

__all__ = ["Acceptance", "Comparison", "accept", "compare_with_reference"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Frame by frame against what was expected.

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
    """The answers, and where they were found.

    Attributes:
        machine: device, torch and Python.
        revision: of the checkpoint: its folder's name.
        taken_at: the day.
        whole: whether the checkpoint is; if not, nothing else was asked.
        problems: what is wrong with it, or stopped a question from being answered.
        reference: ours against moshi's own generator.
        golden: ours against what was recorded; None: nothing was, or of another checkpoint.
        sessions_in_real_time: the largest size tried that leaves room to spare.
        rows: figures by batch size, as far as memory went.
        said: what the whole stage says, to be recorded; written to a file of its own.
    """

    machine: dict[str, str]
    revision: str
    taken_at: str
    whole: bool
    problems: tuple[str, ...]
    reference: Comparison | None = None
    golden: Comparison | None = None
    sessions_in_real_time: int = 0
    rows: tuple[BenchRow, ...] = ()
    said: Golden | None = None

    def write(self, path: Path) -> None:
        """Put it into a file, as JSON, and what was said into one beside it, ``*.golden.json``."""
        path.parent.mkdir(parents=True, exist_ok=True)
        answers = asdict(self)
        del answers["said"]
        path.write_text(json.dumps(answers, indent=1) + "\n")
        if self.said is not None:
            self.said.write(path.with_suffix(".golden.json"))


def accept(
    checkpoint: str,
    *,
    device: str,
    dtype: str = "auto",
    frames: int = 125,
    batches: Sequence[int] = (1, 2, 4, 8),
    bench_frames: int = 3750,
    golden: Path = RELEASE_GOLDEN,
) -> Acceptance:
    """Ask the four questions. Asks nothing more of a checkpoint that is not whole.

    Args:
        checkpoint: a folder or a hub id.
        device: ``cuda:0`` or ``cpu``.
        dtype: as the plugin's option.
        frames: to compare.
        batches: sizes to time.
        bench_frames: to time at each size; 3750 are five minutes.
        golden: what was recorded, if there is such a file.
    """
    files = find_checkpoint(checkpoint)
    report = verify_checkpoint(files.folder)
    about: dict[str, Any] = {
        "machine": machine(device),
        "revision": files.folder.name,
        "taken_at": time.strftime("%Y-%m-%d"),
        "whole": report.ok,
    }
    if not report.ok:
        wrong = (f"{check.name}: {check.detail}" for check in report.checks if not check.ok)
        return Acceptance(**about, problems=tuple(wrong))
    options: dict[str, Any] = {
        "checkpoint": str(files.folder),
        "frames": bench_frames,
        "device": device,
        "dtype": dtype,
        "prefill_frames": 32,
    }
    problems: list[str] = []
    reference = _tried(
        problems, lambda: compare_with_reference(files, torch.device(device), dtype, frames)
    )
    said = _tried(
        problems,
        lambda: replace(
            record(str(files.folder), device=device, dtype=dtype, frames=frames),
            tensors=tensor_list(files),
        ),
    )
    rows, _ = _tried(problems, lambda: measure_sizes(options, batches)) or ([], None)
    return Acceptance(
        **about,
        problems=tuple(problems),
        reference=reference,
        golden=None if said is None else _compared_with(golden, said),
        sessions_in_real_time=sessions_in_real_time(rows),
        rows=tuple(rows),
        said=said,
    )


def _tried(problems: list[str], question: Callable[[], T]) -> T | None:
    """An answer. What goes wrong is one: time on a GPU is short, the others are still asked."""
    try:
        return question()
    except Exception:
        problems.append(traceback.format_exc())
        return None
    finally:
        release_memory()


def _compared_with(path: Path, said: Golden) -> Comparison | None:
    if not path.exists():
        return None
    recorded = Golden.read(path)
    if recorded.tensors != said.tensors or recorded.dtype != said.dtype:
        return None
    return _comparison(said.frames, recorded.frames)


def _comparison(said: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]) -> Comparison:
    same = [list(ours) == list(theirs) for ours, theirs in zip(said, expected, strict=False)]
    return Comparison(len(same), sum(same), None if all(same) else same.index(False))


def compare_with_reference(
    files: CheckpointFiles, device: torch.device, dtype: str, frames: int
) -> Comparison:
    """Let both say greedily what they say to the same sound."""
    plan = plan_load(files, device=device, dtype=weights_dtype(dtype, device), slots=1)
    model = load_model(plan, lambda fraction, text: None)
    voice = VoiceBank(files.voices, None, sizes=model.sizes).find(VOICE)
    assert isinstance(voice, ReplayVoice)
    role = TextTokens(files.text, model.sizes.text_card).role(ROLE)
    heard = _heard(model, device, frames)
    expected = list(reference_frames(model.lm, voice, role, heard))
    return _comparison(_said(model, voice, role, heard, device), expected)


@torch.no_grad()
def _heard(model: LoadedModel, device: torch.device, frames: int) -> torch.Tensor:
    """Codes of the sound for tests, ``[8, frames]``."""
    sound = sound_for_tests(frames).reshape(1, 1, -1).to(device)
    codes: torch.Tensor = model.mimi.encode(sound)
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
