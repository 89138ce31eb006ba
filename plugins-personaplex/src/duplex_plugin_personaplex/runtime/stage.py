"""The stage: hears a frame of each caller, says a frame to each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch
from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import (
    Json,
    LoadContext,
    StageInfo,
    StageLoadError,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
)
from moshi.utils.compile import no_compile

from duplex_plugin_personaplex.figures import FRAME_SAMPLES, RATE

from .codec import BatchCodec
from .loading import load_model, plan_load, weights_dtype
from .memory import gigabytes, release_memory
from .pieces import PieceReader, TextTokens
from .sessions import Caller, Prompter, row_sampling
from .sizes import LmSizes
from .source import find_checkpoint
from .stepper import FrameStepper
from .voice_bank import VoiceBank

__all__ = ["FrameStage"]

_WARM_UP_FRAMES = 4

_Unit = StageUnit[Caller]


class FrameStage(StageModel[Caller]):
    """PersonaPlex for as many callers as there are slots, on one copy of the weights."""

    def load(self, context: LoadContext) -> StageInfo:
        """Check and load the checkpoint, then make room for the callers.

        Raises:
            StageLoadError: no checkpoint, a damaged one, or too little memory.
        """
        options = context.options
        device = _device(context.device)
        self._settings = ExitStack()
        if device.type != "cuda":
            # moshi would compile some kernels: seconds of waiting that a CPU does not win back.
            self._settings.enter_context(no_compile())
        slots = int(options["slots"])
        files = find_checkpoint(options["checkpoint"])
        dtype = weights_dtype(options["dtype"], device)
        plan = plan_load(files, device=device, dtype=dtype, slots=slots)
        context.progress(0.0, f"needs {gigabytes(plan.memory_bytes)} on {device}")
        # The small files first: what is wrong with them is told before minutes of loading.
        tokens = TextTokens(files.text, plan.lm_sizes.text_card)
        voices = _voices(options, files.voices, plan.lm_sizes)
        loaded = load_model(plan, context.progress)
        self._active = torch.zeros(slots, dtype=torch.bool, device=device)
        self._codec = BatchCodec(loaded.mimi, slots, self._active)
        self._stepper = FrameStepper(loaded.lm, slots, self._active)
        self._tokens = tokens
        # Positions that callers may fill; 0: as many as they like.
        self._window = 0 if options.get("window_policy") == "drift" else plan.lm_sizes.context
        self._prompter = Prompter(
            codec=self._codec,
            stepper=self._stepper,
            voices=voices,
            tokens=tokens,
            sizes=loaded.sizes,
            slice_frames=int(options["prefill_frames"]),
        )
        self._heard = torch.zeros(slots, FRAME_SAMPLES)
        if device.type == "cuda":
            self._heard = self._heard.pin_memory()
        self._free = list(reversed(range(slots)))
        self._warm_up(device)
        return StageInfo(str(device), plan.memory_bytes, slots)

    def open(self, session: StageSession) -> Caller:
        """Take a row; its prompt is worked off by ``prefill``."""
        if not self._free:
            raise RuntimeError("all slots are taken")
        row = self._free.pop()
        self._codec.reset(row)
        self._stepper.reset(row)
        self._stepper.set_sampling(row, row_sampling(session.sampling, session.seed))
        return Caller(row, PieceReader(self._tokens), self._prompter.slices(row, session))

    def prefill(self, state: Caller, now: float) -> float | None:
        """One slice of the prompt."""
        if state.getting_ready is None:
            return None
        try:
            next(state.getting_ready)
        except StopIteration as done:
            state.getting_ready = None
            state.room = max(0, self._window - done.value) if self._window else None
            return None
        return 0.0

    def step(self, units: Sequence[_Unit], now: float) -> Iterable[StageOutput]:
        """One frame of every caller that has one ready."""
        ready: list[_Unit] = []
        outputs: list[StageOutput] = []
        for unit in units:
            if unit.prompt.audio is None:
                continue
            problem = _problem(unit)
            if problem is None:
                ready.append(unit)
            else:
                outputs.append(problem)
        if not ready:
            return outputs
        rows = self._gather(ready)
        codes = self._codec.encode(self._heard.to(self._active.device, non_blocking=True))
        spoken = self._stepper.step(codes)
        audio = self._codec.decode(spoken.codes)
        tokens = torch.cat([spoken.text[:, None], spoken.codes], dim=1).tolist()
        sound = audio.float().cpu().numpy()
        outputs += [
            unit.output(
                audio=PcmChunk(sound[row].tobytes(), RATE),
                text=unit.state.text.read(tokens[row][0]) or None,
                token_ids=tuple(tokens[row]),
            )
            for unit, row in zip(ready, rows, strict=True)
        ]
        return outputs

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self._active.device

    def parts(self) -> tuple[BatchCodec, FrameStepper]:
        """What computes; for measurements."""
        return self._codec, self._stepper

    def update(self, state: Caller, session: StageSession) -> None:
        """Only sampling can change."""
        self._stepper.set_sampling(state.row, row_sampling(session.sampling, session.seed))

    def close(self, state: Caller) -> None:
        """Give the row back."""
        self._free.append(state.row)

    def unload(self) -> None:
        """Let go of the models."""
        self._stepper.close()
        self._codec.close()
        self._settings.close()
        del self._stepper, self._codec, self._prompter
        release_memory()

    def _gather(self, units: Sequence[_Unit]) -> list[int]:
        """Lay the callers' frames into the batch and name their rows as active."""
        rows = [unit.state.row for unit in units]
        heard = self._heard.numpy()
        heard.fill(0.0)
        for unit, row in zip(units, rows, strict=True):
            assert unit.prompt.audio is not None
            if unit.state.room is not None:
                unit.state.room -= 1
            heard[row] = unit.prompt.audio.numpy()
        if not np.isfinite(heard).all():
            # One value that is no number would stay in a caller's window for minutes.
            np.nan_to_num(heard, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        mask = torch.zeros(len(self._active), dtype=torch.bool)
        mask[rows] = True
        self._active.copy_(mask)
        return rows

    def _warm_up(self, device: torch.device) -> None:
        """Steps without callers: kernels are chosen and graphs captured before anybody waits."""
        silence = self._heard.to(device)
        for _ in range(_WARM_UP_FRAMES):
            self._codec.decode(self._stepper.step(self._codec.encode(silence)).codes)


def _voices(options: Mapping[str, Json], bundled: Path, sizes: LmSizes) -> VoiceBank:
    own = options.get("voice_dir")
    voices = VoiceBank(bundled, Path(own).expanduser() if own else None, sizes=sizes)
    usual = options.get("voice")
    if usual is not None and usual not in voices.names:
        raise StageLoadError(
            f"there is no voice {usual!r} for callers who name none",
            hint=f"--voice with one of: {', '.join(voices.names)}",
        )
    return voices


def _problem(unit: _Unit) -> StageOutput | None:
    audio = unit.prompt.audio
    if audio is None or audio.count != FRAME_SAMPLES:
        return unit.failed("runtime_append_failed", f"a unit must have {FRAME_SAMPLES} samples")
    if unit.state.room == 0:
        # Sooner than by the clock only for a caller who speaks faster than time passes.
        return unit.failed("runtime_append_failed", "the model's window is full", scope="session")
    return None


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise StageLoadError(f"there is no device {name!r}: {error}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise StageLoadError(
            f"{name} was asked for, but this PyTorch finds no CUDA device",
            hint="check the driver and that PyTorch was installed with CUDA",
        )
    return device
