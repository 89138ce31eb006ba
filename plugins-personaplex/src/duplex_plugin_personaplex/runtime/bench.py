"""``duplex bench-model personaplex``: how long a frame takes, and what that allows.

The same on a CPU with the tiny checkpoint and on a GPU with the release. Beside the whole step it
times the model's own work, so that what is left, the cost of our loop, is seen.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from duplex_sdk.audio import PcmChunk
from duplex_sdk.discovery import Check, Report
from duplex_sdk.errors import DuplexError
from duplex_sdk.stage import LoadContext, StagePrompt, StageSession, StageUnit

from duplex_plugin_personaplex.figures import FRAME_MS, FRAME_SAMPLES, RATE
from duplex_plugin_personaplex.sampling import SAMPLING_DEFAULTS

from .sessions import Caller
from .stage import FrameStage

__all__ = ["BenchRow", "bench_model", "measure"]

REAL_TIME_SHARE = 0.6
"""A p99 up to this share of a frame counts as real time: the rest is for everything else."""

_DEFAULTS: Mapping[str, Any] = {
    "checkpoint": "nvidia/personaplex-7b-v1",
    "batches": "1,2,4,8",
    "frames": 250,
    "dtype": "auto",
    "device": None,
    "prefill_frames": 32,
    "out": None,
}


@dataclass(frozen=True, slots=True)
class BenchRow:
    """The figures of one batch size; times in ms.

    Attributes:
        batch: callers.
        p50: of a whole step.
        p99: of a whole step.
        model_p50: of the model's part of it: codec, temporal step, depth steps with their sampling.
        loop_p50: of the rest of it.
        loop_p99: of the rest of it.
        rtf: p50 over the length of a frame.
        real_time: whether p99 leaves room to spare.
        prompt_ms: from opening a session to its first frame.
        memory_gb: the device's memory at its highest; on a CPU the process's.
    """

    batch: int
    p50: float
    p99: float
    model_p50: float
    loop_p50: float
    loop_p99: float
    rtf: float
    real_time: bool
    prompt_ms: float
    memory_gb: float


def bench_model(arguments: Mapping[str, Any]) -> Report:
    """Measure, and report one check per batch size.

    Args:
        arguments: ``checkpoint``, ``batches`` ("1,2,4"), ``frames``, ``dtype``, ``device``,
            ``prefill_frames``, and ``out``, a file for the figures as JSON.

    Raises:
        StageLoadError: the checkpoint cannot be loaded.
        DuplexError: an argument that does not exist.
    """
    unknown = sorted(set(arguments) - set(_DEFAULTS))
    if unknown:
        raise DuplexError(
            f"bench-model personaplex knows no {unknown[0]!r}",
            hint=f"it knows {', '.join(_DEFAULTS)}",
        )
    options = {**_DEFAULTS, **arguments}
    batches = [int(size) for size in str(options["batches"]).split(",")]
    rows = [measure(options, size) for size in batches]
    device = _device(options)
    if options["out"]:
        figures = {
            "machine": machine(device),
            "checkpoint": Path(str(options["checkpoint"])).name,
            "frames": int(options["frames"]),
            "rows": [asdict(row) for row in rows],
        }
        Path(options["out"]).write_text(json.dumps(figures, indent=1) + "\n")
    return Report(f"personaplex on {machine(device)['device']}", tuple(map(_check, rows)))


def machine(device: str) -> dict[str, str]:
    """Where figures were taken, for the record."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()
    return {"device": name, "torch": torch.__version__, "python": platform.python_version()}


def measure(options: Mapping[str, Any], batch: int) -> BenchRow:
    """The figures of one batch size."""
    device = _device(options)
    stage = FrameStage()
    stage.load(
        LoadContext(
            device=device,
            options={**options, "slots": batch, "voice_dir": None},
            max_batch=batch,
        )
    )
    model = stopwatch_on(stage)
    try:
        callers, prompt_ms = _open(stage, batch)
        frames = int(options["frames"])
        steps, parts = [], []
        for number in range(frames):
            units = _units(callers, number)
            model.total = 0.0
            began = time.perf_counter()
            list(stage.step(units, 0.0))
            steps.append(1000 * (time.perf_counter() - began))
            parts.append(1000 * model.total)
        memory_gb = _memory_gb(device)
    finally:
        stage.unload()
    loop = [step - part for step, part in zip(steps, parts, strict=True)]
    p99 = _percentile(steps, 99)
    p50 = statistics.median(steps)
    return BenchRow(
        batch=batch,
        p50=p50,
        p99=p99,
        model_p50=statistics.median(parts),
        loop_p50=statistics.median(loop),
        loop_p99=_percentile(loop, 99),
        rtf=p50 / FRAME_MS,
        real_time=p99 <= REAL_TIME_SHARE * FRAME_MS,
        prompt_ms=prompt_ms,
        memory_gb=memory_gb,
    )


@dataclass(slots=True)
class Stopwatch:
    """Seconds spent in the calls it was put on."""

    total: float = 0.0

    def around(self, call: Callable[..., Any], wait: Callable[[], None]) -> Callable[..., Any]:
        """The call, timed to its true end."""

        def timed(*arguments: Any) -> Any:
            wait()
            began = time.perf_counter()
            result = call(*arguments)
            wait()
            self.total += time.perf_counter() - began
            return result

        return timed


def stopwatch_on(stage: FrameStage) -> Stopwatch:
    """Time the model's own calls of a stage from now on."""
    stopwatch = Stopwatch()
    codec, stepper = stage.parts()
    on_gpu = stage.device.type == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    codec.encode = stopwatch.around(codec.encode, wait)  # type: ignore[method-assign]
    codec.decode = stopwatch.around(codec.decode, wait)  # type: ignore[method-assign]
    stepper.temporal = stopwatch.around(stepper.temporal, wait)
    stepper.depth = stopwatch.around(stepper.depth, wait)
    return stopwatch


def _open(stage: FrameStage, batch: int) -> tuple[list[Caller], float]:
    runtime = {"voice": "NATF2", "role": "You are a wise and friendly teacher."}
    callers, took = [], []
    for number in range(batch):
        began = time.perf_counter()
        session = StageSession(
            f"s{number}", runtime=runtime, sampling=dict(SAMPLING_DEFAULTS), seed=number
        )
        caller = stage.open(session)
        while stage.prefill(caller, 0.0) is not None:
            pass
        callers.append(caller)
        took.append(1000 * (time.perf_counter() - began))
    return callers, statistics.median(took)


def _units(callers: Sequence[Caller], number: int) -> list[StageUnit[Caller]]:
    noise = np.random.default_rng(number).standard_normal(FRAME_SAMPLES) * 0.05
    prompt = StagePrompt(audio=PcmChunk.of(noise.astype(np.float32), RATE))
    return [
        StageUnit(caller, f"s{row}", f"s{row}-0", 0, 1, number, prompt)
        for row, caller in enumerate(callers)
    ]


def _check(row: BenchRow) -> Check:
    return Check(
        f"batch {row.batch}",
        row.real_time,
        f"p50 {row.p50:.1f} ms, p99 {row.p99:.1f} ms, RTF {row.rtf:.2f}; model {row.model_p50:.1f},"
        f" loop {row.loop_p50:.2f} ms; prompt {row.prompt_ms:.0f} ms; {row.memory_gb:.1f} GB",
        None if row.real_time else f"p99 is over {REAL_TIME_SHARE:.0%} of a frame: not real time",
    )


def _device(options: Mapping[str, Any]) -> str:
    return str(options["device"] or ("cuda" if torch.cuda.is_available() else "cpu"))


def _memory_gb(device: str) -> float:
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device) / 1e9
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _percentile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent))
