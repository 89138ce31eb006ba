"""``duplex bench-model personaplex``: how long a frame takes, and what that allows.

The same on a CPU with the tiny checkpoint and on a GPU with the release. A frame is all that a
worker does for it: units queued with the host, a batch made and stepped, its outputs checked.
Beside the whole of it the model's own work is timed, so that what is left, the cost of our loop,
is seen.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from duplex_sdk.audio import PcmChunk
from duplex_sdk.discovery import Check, Report
from duplex_sdk.errors import DuplexError
from duplex_sdk.stage import LoadContext, StagePrompt, StageSession, UnitRequest
from duplex_sdk.stage.host import StageHost

from duplex_plugin_personaplex.figures import FRAME_MS, FRAME_SAMPLES, RATE
from duplex_plugin_personaplex.sampling import SAMPLING_DEFAULTS

from .errors import TooLittleMemoryError
from .loading import DTYPES
from .stage import FrameStage

__all__ = ["BenchRow", "bench_model", "measure", "measure_sizes", "sessions_in_real_time"]

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
    """The figures of one batch size.

    Attributes:
        batch: callers.
        p50_ms: of a whole frame.
        p99_ms: of a whole frame.
        model_ms: p50 of the model's part of it: codec, temporal step, depth steps with their
            sampling.
        loop_ms: p50 of the rest of it.
        loop_p99_ms: p99 of the rest of it.
        rtf: p50 over the length of a frame.
        real_time: whether p99 leaves room to spare.
        prompt_ms: from opening a session to its first frame.
        slice_ms: the longest that others waited meanwhile.
        memory_gb: the device's memory at its highest; on a CPU the process's.
    """

    batch: int
    p50_ms: float
    p99_ms: float
    model_ms: float
    loop_ms: float
    loop_p99_ms: float
    rtf: float
    real_time: bool
    prompt_ms: float
    slice_ms: float
    memory_gb: float


def bench_model(arguments: Mapping[str, Any]) -> Report:
    """Measure: a row of figures per batch size, and how many sessions run in real time.

    Args:
        arguments: ``checkpoint``, ``batches`` ("1,2,4"), ``frames``, ``dtype``, ``device``,
            ``prefill_frames``, and ``out``, a file for the figures as JSON.

    Raises:
        StageLoadError: the checkpoint cannot be loaded.
        DuplexError: an argument that does not exist, or cannot be.
    """
    unknown = sorted(set(arguments) - set(_DEFAULTS))
    if unknown:
        raise DuplexError(
            f"bench-model personaplex knows no {unknown[0]!r}",
            hint=f"it knows {', '.join(_DEFAULTS)}",
        )
    options = _checked({**_DEFAULTS, **arguments})
    rows, left_out = measure_sizes(options, _batches(str(options["batches"])))
    taken_on = machine(_device(options))
    sessions = sessions_in_real_time(rows)
    if options["out"]:
        figures = {
            "machine": taken_on,
            "checkpoint": Path(str(options["checkpoint"])).name,
            "frames": options["frames"],
            "sessions_in_real_time": sessions,
            "rows": [asdict(row) for row in rows],
        }
        options["out"].write_text(json.dumps(figures, indent=1) + "\n")
    check = Check(
        "sessions in real time",
        sessions > 0,
        f"{sessions}; of the sizes tried, the largest whose p99 is at most"
        f" {REAL_TIME_SHARE:.0%} of {FRAME_MS} ms",
        left_out,
    )
    return Report(f"personaplex on {taken_on['device']}", (check,), tuple(map(asdict, rows)))


def measure_sizes(
    options: Mapping[str, Any], sizes: Sequence[int]
) -> tuple[list[BenchRow], str | None]:
    """Figures of one batch size after the other, as far as memory goes; then what did not fit.

    Raises:
        TooLittleMemoryError: not even the first fits.
    """
    rows: list[BenchRow] = []
    for size in sizes:
        try:
            rows.append(measure(options, size))
        except TooLittleMemoryError as error:
            if not rows:
                raise
            return rows, f"left out: {error}"
    return rows, None


def sessions_in_real_time(rows: Sequence[BenchRow]) -> int:
    """The largest batch that leaves room to spare, as all smaller ones do; 0: none does."""
    largest = 0
    for row in sorted(rows, key=lambda row: row.batch):
        if not row.real_time:
            break
        largest = row.batch
    return largest


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """The settings in their types, all looked at before minutes of measuring.

    Raises:
        DuplexError: one that cannot be.
    """
    for name in ("frames", "prefill_frames"):
        text = str(options[name])
        if not text.isdecimal() or int(text) < 1:
            raise DuplexError(f"{name} must be a whole number above zero; got {text!r}")
        options[name] = int(text)
    if options["dtype"] not in DTYPES:
        raise DuplexError(f"dtype must be one of {', '.join(DTYPES)}; got {options['dtype']!r}")
    if options["out"] is not None:
        options["out"] = Path(options["out"])
        if options["out"].is_dir() or not options["out"].absolute().parent.is_dir():
            raise DuplexError(f"no file can be written at {str(options['out'])!r}")
    return options


def _batches(text: str) -> list[int]:
    sizes = [int(size) if size.isdecimal() else 0 for size in text.split(",")]
    if min(sizes) < 1:
        raise DuplexError(f"batches must be sizes such as 1,2,4; got {text!r}")
    return sizes


def machine(device: str) -> dict[str, str]:
    """Where figures were taken, for the record."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()
    return {
        "device": name,
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "none",
        "moshi": metadata.version("moshi"),
        "python": platform.python_version(),
    }


def measure(options: Mapping[str, Any], batch: int) -> BenchRow:
    """The figures of one batch size."""
    device = _device(options)
    stage = FrameStage()
    host = StageHost(stage, clock=time.monotonic, output_rate=RATE, max_batch=batch)
    host.load(
        LoadContext(
            device=device,
            options={**options, "slots": batch, "voice_dir": None},
            max_batch=batch,
        )
    )
    model = stopwatch_on(stage)
    try:
        prompts = [_opened(host, number) for number in range(batch)]
        frames, parts = _frames(host, model, batch, options["frames"])
        memory_gb = _memory_gb(device)
    finally:
        host.shutdown()
    loop = [whole - part for whole, part in zip(frames, parts, strict=True)]
    p50, p99 = statistics.median(frames), _percentile(frames, 99)
    return BenchRow(
        batch=batch,
        p50_ms=p50,
        p99_ms=p99,
        model_ms=statistics.median(parts),
        loop_ms=statistics.median(loop),
        loop_p99_ms=_percentile(loop, 99),
        rtf=p50 / FRAME_MS,
        real_time=p99 <= REAL_TIME_SHARE * FRAME_MS,
        prompt_ms=statistics.median(map(sum, prompts)),
        slice_ms=statistics.median(map(max, prompts)),
        memory_gb=memory_gb,
    )


def _frames(
    host: StageHost, model: Stopwatch, batch: int, frames: int
) -> tuple[list[float], list[float]]:
    """Ms of each frame, the whole of it and the model's part."""
    whole, parts = [], []
    numbers = count()
    for frame in range(frames):
        units = _units(batch, frame, numbers)
        model.total = 0.0
        began = time.perf_counter()
        host.units(units)
        outputs = host.step().outputs
        whole.append(1000 * (time.perf_counter() - began))
        parts.append(1000 * model.total)
        if len(outputs) != batch or any(output.error for output in outputs):
            raise DuplexError(f"{batch} callers were not all answered")
    return whole, parts


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


def _opened(host: StageHost, number: int) -> list[float]:
    """Ms of each slice until one more session is ready for its first frame."""
    runtime = {"voice": "NATF2", "role": "You are a wise and friendly teacher."}
    session = StageSession(
        f"s{number}", runtime=runtime, sampling=dict(SAMPLING_DEFAULTS), seed=number
    )
    slices: list[float] = []
    began = time.perf_counter()
    host.open(session)
    while True:
        result = host.step()
        slices.append(1000 * (time.perf_counter() - began))
        if result.failed:
            raise DuplexError(f"no session could be opened: {result.failed[0][1].message}")
        if result.opened:
            return slices
        began = time.perf_counter()


def _units(batch: int, frame: int, numbers: Iterator[int]) -> list[UnitRequest]:
    noise = np.random.default_rng(frame).standard_normal(FRAME_SAMPLES) * 0.05
    prompt = StagePrompt(audio=PcmChunk.of(noise.astype(np.float32), RATE))
    return [
        UnitRequest(f"s{row}", f"s{row}-0", 0, 1, next(numbers), prompt) for row in range(batch)
    ]


def _device(options: Mapping[str, Any]) -> str:
    return str(options["device"] or ("cuda" if torch.cuda.is_available() else "cpu"))


def _memory_gb(device: str) -> float:
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device) / 1e9
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _percentile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent))
