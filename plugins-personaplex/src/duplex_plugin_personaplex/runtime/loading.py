"""From a checkpoint to the two models, checked on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from moshi.models import LMModel, MimiModel, loaders

from .errors import CheckpointError
from .headers import Header, read_header
from .manifest import lm_manifest, require, rows_to_read
from .memory import memory_available, require_memory
from .sizes import AGENT_CODES, LmSizes, MimiSizes, lm_sizes, mimi_sizes, read_overrides
from .source import CheckpointFiles
from .weights import read_tensors

__all__ = [
    "DTYPES",
    "LoadedModel",
    "Plan",
    "load_model",
    "mimi_manifest",
    "plan_load",
    "weights_dtype",
]

Progress = Callable[[float, str], None]

_TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
DTYPES = ("auto", *_TYPES)
"""What the option ``dtype`` may say."""

# Buffers of the codec per caller: convolution tails and two short windows.
_CODEC_SLOT_BYTES = 24 << 20


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be loaded, known from the headers alone.

    Attributes:
        lm: header of the language model.
        mimi: header of the codec.
        lm_sizes: sizes of the former.
        mimi_sizes: sizes of the latter.
        device: where to.
        dtype: precision of the language model; the codec has its own, float32.
        memory_bytes: what weights and slots take together.
    """

    lm: Header
    mimi: Header
    lm_sizes: LmSizes
    mimi_sizes: MimiSizes
    device: torch.device
    dtype: torch.dtype
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The two models, in evaluation mode."""

    lm: LMModel
    mimi: MimiModel
    sizes: LmSizes


def weights_dtype(name: str, device: torch.device) -> torch.dtype:
    """The precision an option names; ``auto`` is what the release has, and float32 on a CPU."""
    if name == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return _TYPES[name]


def plan_load(
    files: CheckpointFiles, *, device: torch.device, dtype: torch.dtype, slots: int
) -> Plan:
    """Look at a checkpoint's headers and at the device.

    Raises:
        CheckpointError: files damaged, tensors missing, unknown or of a wrong shape, or too little
            memory.
    """
    overrides = read_overrides(files.folder)
    lm, mimi = read_header(files.lm), read_header(files.mimi)
    sizes, codec_sizes = lm_sizes(lm, overrides), mimi_sizes(mimi, overrides)
    require(lm, lm_manifest(sizes))
    require(mimi, mimi_manifest(codec_sizes))
    memory_bytes = require_memory(
        _lm_bytes(lm, sizes, dtype.itemsize) + mimi.byte_count,
        sizes.kv_bytes(dtype.itemsize) + _CODEC_SLOT_BYTES,
        slots,
        memory_available(device),
        str(device),
    )
    return Plan(lm, mimi, sizes, codec_sizes, device, dtype, memory_bytes)


def _lm_bytes(header: Header, sizes: LmSizes, item_bytes: int) -> int:
    total = 0
    for name, entry in header.tensors.items():
        rows = rows_to_read(name, sizes)
        count = entry.shape[0] if rows is None else rows
        values = count
        for length in entry.shape[1:]:
            values *= length
        total += values * item_bytes
    return total


def load_model(plan: Plan, progress: Progress) -> LoadedModel:
    """Read the weights; progress goes from 0 to 1.

    Raises:
        CheckpointError: a tensor that cannot be used, named.
    """
    meter = _Meter(progress, plan.lm.byte_count + plan.mimi.byte_count)
    mimi = _load_mimi(plan, meter)
    lm = _load_lm(plan, meter)
    return LoadedModel(lm, mimi, plan.lm_sizes)


class _Meter:
    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0
        self._shown = -1

    def add(self, byte_count: int, what: str) -> None:
        self._done += byte_count
        percent = 100 * self._done // self._total
        if percent > self._shown:
            self._shown = percent
            self._progress(self._done / self._total, what)


def _load_lm(plan: Plan, meter: _Meter) -> LMModel:
    model = LMModel(device="meta", dtype=plan.dtype, **plan.lm_sizes.arguments())
    state = {
        name: tensor.to(plan.dtype)
        for name, tensor in read_tensors(
            plan.lm,
            device=plan.device,
            rows=lambda name: rows_to_read(name, plan.lm_sizes),
            read=lambda count: meter.add(count, "language model"),
        )
    }
    _fill(model, state, plan.lm)
    return model.eval().requires_grad_(False)


def _load_mimi(plan: Plan, meter: _Meter) -> MimiModel:
    model = loaders.get_mimi(None, plan.mimi_sizes.arguments(), num_codebooks=AGENT_CODES)
    state = dict(
        read_tensors(
            plan.mimi,
            device=plan.device,
            rows=lambda name: None,
            read=lambda count: meter.add(count, "codec"),
        )
    )
    _fill(model, state, plan.mimi)
    return model.to(plan.device).eval().requires_grad_(False)


def _fill(model: torch.nn.Module, state: dict[str, torch.Tensor], header: Header) -> None:
    try:
        model.load_state_dict(state, strict=True, assign=True)
    except RuntimeError as error:
        # The manifest was checked before: a difference here is one between it and the runtime.
        raise CheckpointError(f"{header.path.name} does not fit the runtime: {error}") from error


def mimi_manifest(sizes: MimiSizes) -> dict[str, tuple[int, ...]]:
    """Every tensor of a codec of these sizes, with its name and shape on disk."""
    with torch.device("meta"):
        model = loaders.get_mimi(None, sizes.arguments(), device="meta")
    return {_name_on_disk(name): tuple(t.shape) for name, t in model.state_dict().items()}


def _name_on_disk(name: str) -> str:
    return name.replace("in_projs.0.weight", "in_proj_weight").replace(
        "out_projs.0.weight", "out_proj.weight"
    )
