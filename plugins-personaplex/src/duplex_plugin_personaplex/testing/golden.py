"""Golden outputs: what a checkpoint is known to say, token for token.

One conversation, greedy, through the whole stage: the checkpoint loaded as for serving, a fixed
sound heard, tokens, words and samples noted. ``golden/tiny.json`` is that of the tiny checkpoint,
which must come out the same on every machine. ``make verify-gpu`` records that of the release, with
the list of its tensors; kept as ``golden/release.json`` it is what later runs are compared with.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import torch
from duplex_sdk.audio import PcmChunk
from duplex_sdk.errors import DuplexError
from duplex_sdk.stage import LoadContext, StagePrompt, StageSession, UnitRequest
from duplex_sdk.stage.host import StageHost

from duplex_plugin_personaplex.figures import FRAME_SAMPLES, RATE
from duplex_plugin_personaplex.runtime.headers import read_header
from duplex_plugin_personaplex.runtime.loading import weights_dtype
from duplex_plugin_personaplex.runtime.source import CheckpointFiles
from duplex_plugin_personaplex.runtime.stage import FrameStage
from duplex_plugin_personaplex.sampling import SAMPLING_DEFAULTS

__all__ = ["RELEASE_GOLDEN", "TINY_GOLDEN", "Golden", "record", "sound_for_tests", "tensor_list"]

_FOLDER = Path(__file__).with_name("golden")
TINY_GOLDEN = _FOLDER / "tiny.json"
RELEASE_GOLDEN = _FOLDER / "release.json"
"""There once a GPU machine has recorded it."""

VOICE = "NATF2"
ROLE = "You are a wise and friendly teacher."
_SESSION = "golden"


@dataclass(frozen=True, slots=True)
class Golden:
    """One conversation.

    Attributes:
        voice: of the prompt.
        role: of the prompt.
        dtype: precision of the language model.
        frames: text token and eight codes of each frame.
        words: the text channel.
        samples: of sound, in all.
        tensors: name, type and shape of every tensor by file; only of the release.
    """

    voice: str
    role: str
    dtype: str
    frames: tuple[tuple[int, ...], ...]
    words: str
    samples: int
    tensors: dict[str, dict[str, list[Any]]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Golden:
        """A conversation from its file."""
        found = json.loads(path.read_text())
        return cls(**{**found, "frames": tuple(map(tuple, found["frames"]))})

    def write(self, path: Path) -> None:
        """Put it into a file, a frame a line."""
        path.parent.mkdir(parents=True, exist_ok=True)
        values = asdict(self)
        frames = ",\n  ".join(map(json.dumps, map(list, values.pop("frames"))))
        head = json.dumps(values, indent=None)[:-1]
        path.write_text(f'{head}, "frames": [\n  {frames}\n]}}\n')

    def first_difference(self, other: Golden) -> int | None:
        """Number of the first frame that is not the same; None: as far as both go, all are."""
        pairs = zip(self.frames, other.frames, strict=False)
        return next((number for number, (one, two) in enumerate(pairs) if one != two), None)


def sound_for_tests(frames: int) -> torch.Tensor:
    """The same sound each time, ``[frames, 1920]``, with the ups and downs of speech."""
    generator = torch.Generator().manual_seed(1)
    level = torch.rand(frames, generator=generator).repeat_interleave(FRAME_SAMPLES)
    pitch = 2 * torch.pi * 140 * torch.arange(frames * FRAME_SAMPLES) / RATE
    noise = torch.randn(frames * FRAME_SAMPLES, generator=generator)
    return (0.2 * level * (torch.sin(pitch) + 0.3 * noise)).reshape(frames, FRAME_SAMPLES)


def tensor_list(files: CheckpointFiles) -> dict[str, dict[str, list[Any]]]:
    """Every tensor of a checkpoint's two files by name, as type and shape."""
    return {
        path.name: {
            name: [entry.dtype, *entry.shape] for name, entry in read_header(path).tensors.items()
        }
        for path in (files.lm, files.mimi)
    }


def record(checkpoint: str, *, device: str, dtype: str = "auto", frames: int = 50) -> Golden:
    """Have a checkpoint say what it says.

    Raises:
        StageLoadError: it cannot be loaded.
        DuplexError: it fails over the conversation.
    """
    host = StageHost(FrameStage(), clock=time.monotonic, output_rate=RATE, max_batch=1)
    options = {"checkpoint": checkpoint, "slots": 1, "dtype": dtype, "prefill_frames": 32}
    host.load(LoadContext(device=device, options=options, max_batch=1))
    try:
        outputs = _conversation(host, sound_for_tests(frames))
    finally:
        host.shutdown()
    return Golden(
        voice=VOICE,
        role=ROLE,
        dtype=str(weights_dtype(dtype, torch.device(device))).removeprefix("torch."),
        frames=tuple(output.token_ids for output in outputs),
        words="".join(output.text or "" for output in outputs),
        samples=sum(output.audio.count for output in outputs if output.audio is not None),
    )


def _conversation(host: StageHost, sound: torch.Tensor) -> list[Any]:
    host.open(
        StageSession(
            _SESSION,
            runtime={"voice": VOICE, "role": ROLE},
            sampling={**SAMPLING_DEFAULTS, "greedy": True},
            seed=0,
        )
    )
    outputs: list[Any] = []
    for number, frame in zip(count(), sound, strict=False):
        prompt = StagePrompt(audio=PcmChunk.of(frame.numpy(), RATE))
        host.units([UnitRequest(_SESSION, f"{_SESSION}-0", 0, 1, number, prompt)])
        while len(outputs) <= number:
            result = host.step()
            outputs += result.outputs
            problems = [error.message for _, error in result.failed]
            problems += [output.error.message for output in result.outputs if output.error]
            if problems:
                raise DuplexError(f"frame {number}: {problems[0]}")
    return outputs
