"""Tensors out of a file, each looked at before anybody relies on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from .errors import CheckpointError
from .headers import Header

__all__ = ["check_tensor", "damaged_tensors", "read_tensors"]


def read_tensors(
    header: Header,
    *,
    device: torch.device,
    rows: Callable[[str], int | None],
    read: Callable[[int], None] = lambda byte_count: None,
) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of a file in their own precision, one after the other.

    Args:
        header: of the file.
        device: where they go.
        rows: how many rows of a tensor are wanted: 0 none, None all of them.
        read: told the bytes of each tensor that was dealt with.

    Raises:
        CheckpointError: one of them is all zeros, or holds something that is no number.
    """
    try:
        with safe_open(header.path, framework="pt", device=str(device)) as file:
            for name, entry in header.tensors.items():
                wanted = rows(name)
                if wanted != 0:
                    yield name, _tensor(file, header.path, name, wanted)
                read(entry.byte_count)
    except SafetensorError as error:
        raise CheckpointError(f"{header.path.name} cannot be read: {error}") from error


def damaged_tensors(header: Header, device: torch.device) -> Iterator[tuple[str, str]]:
    """The tensors of a file that nobody should rely on, and why; reads all of it.

    Raises:
        CheckpointError: the file cannot be read to its end.
    """
    try:
        with safe_open(header.path, framework="pt", device=str(device)) as file:
            for name in header.tensors:
                problem = check_tensor(name, file.get_tensor(name))
                if problem is not None:
                    yield name, problem
    except SafetensorError as error:
        raise CheckpointError(f"{header.path.name} cannot be read: {error}") from error


def _tensor(file: object, path: Path, name: str, rows: int | None) -> torch.Tensor:
    if rows is None:
        tensor: torch.Tensor = file.get_tensor(name)  # type: ignore[attr-defined]
    else:
        tensor = file.get_slice(name)[:rows]  # type: ignore[attr-defined]
    problem = check_tensor(name, tensor)
    if problem is not None:
        raise CheckpointError(
            f"{path.name}: the tensor {name!r} {problem}", hint="fetch the file again"
        )
    return tensor


def check_tensor(name: str, tensor: torch.Tensor) -> str | None:
    """What is wrong with the values of a tensor; None: nothing.

    A bias may well be zero; anything else that is was never filled.
    """
    if not tensor.is_floating_point():
        return None
    # One reduction finds both: a sum of absolutes is zero, or no number, exactly then.
    total = torch.linalg.vector_norm(tensor, ord=1, dtype=torch.float32)
    if not bool(torch.isfinite(total)) and not bool(torch.isfinite(tensor).all()):
        return "holds values that are no finite numbers"
    if not name.endswith("bias") and float(total) == 0.0:
        return "is all zeros"
    return None
