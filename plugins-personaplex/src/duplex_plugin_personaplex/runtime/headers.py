"""The header of a safetensors file: names, shapes and types, read without any weight."""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import CheckpointError

__all__ = ["Header", "TensorEntry", "read_header"]

_ITEM_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I64": 8, "I32": 4, "U8": 1, "I8": 1}
_MAX_HEADER_BYTES = 100 << 20


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor as the header tells of it."""

    shape: tuple[int, ...]
    dtype: str
    byte_count: int


@dataclass(frozen=True, slots=True)
class Header:
    """What is in a file."""

    path: Path
    tensors: dict[str, TensorEntry]

    def shape(self, name: str, lengths: int) -> tuple[int, ...]:
        """The shape of a tensor that has so many lengths, none of them zero.

        Raises:
            CheckpointError: it is not there, or has another form.
        """
        entry = self.tensors.get(name)
        if entry is None:
            raise CheckpointError(f"{self.path.name} has no tensor {name!r}")
        if len(entry.shape) != lengths or not all(entry.shape):
            raise CheckpointError(
                f"{self.path.name}: {name!r} is {entry.shape}, expected {lengths} lengths"
            )
        return entry.shape

    def count(self, pattern: str) -> int:
        """How many there are of a tensor whose name has a number in place of ``{}``.

        The highest number decides, so that one that is missing in between is missed by name.
        """
        before, after = map(re.escape, pattern.split("{}"))
        numbered = re.compile(f"{before}([0-9]{{1,4}}){after}")
        found = (numbered.fullmatch(name) for name in self.tensors)
        return max((int(match[1]) + 1 for match in found if match), default=0)

    @property
    def byte_count(self) -> int:
        """Size of all tensors."""
        return sum(entry.byte_count for entry in self.tensors.values())


def read_header(path: Path) -> Header:
    """Read and check the header of a file; that the file is as long as it says, too.

    Raises:
        CheckpointError: missing, no safetensors file, or cut short.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            raw = _header_bytes(path, file.read(8), size, file)
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror or error}") from error
    try:
        entries: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path.name} is no safetensors file: {error}") from error
    if not isinstance(entries, dict):
        raise CheckpointError(f"{path.name} is no safetensors file: its header names no tensors")
    entries.pop("__metadata__", None)
    data_bytes = size - 8 - len(raw)
    tensors = {name: _entry(path, name, entry, data_bytes) for name, entry in entries.items()}
    return Header(path, tensors)


def _header_bytes(path: Path, prefix: bytes, size: int, file: Any) -> bytes:
    length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
    if not 0 < length <= min(size - 8, _MAX_HEADER_BYTES):
        raise CheckpointError(f"{path.name} is no safetensors file, or was cut off in its header")
    raw: bytes = file.read(length)
    return raw


def _entry(path: Path, name: str, entry: Any, data_bytes: int) -> TensorEntry:
    try:
        start, end = entry["data_offsets"]
        shape, dtype = tuple(entry["shape"]), str(entry["dtype"])
    except (TypeError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path.name}: the header of {name!r} is damaged") from error
    if not all(type(number) is int and number >= 0 for number in (start, end, *shape)):
        raise CheckpointError(f"{path.name}: the header of {name!r} is damaged")
    if end > data_bytes:
        raise CheckpointError(
            f"{path.name} was cut short: {name!r} lies {end - data_bytes} bytes behind its end",
            hint="fetch the file again",
        )
    item = _ITEM_BYTES.get(dtype)
    if item is None or end - start != item * math.prod(shape):
        raise CheckpointError(f"{path.name}: {name!r} says {dtype} {shape} but has other bytes")
    return TensorEntry(shape, dtype, end - start)
