"""NVIDIA devices as the driver's management library (NVML) tells of them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["CudaDevice", "cuda_devices"]

_LIBRARY = "libnvidia-ml.so.1"
_OK = 0


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """One device that this process may use; ``index`` is that of ``cuda:INDEX``."""

    index: int
    name: str
    total_bytes: int
    free_bytes: int


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def cuda_devices() -> tuple[CudaDevice, ...]:
    """The devices this process may use, in CUDA's order; empty without a driver. Never raises.

    ``CUDA_VISIBLE_DEVICES`` is honoured for numbers and UUIDs, as the driver itself does.
    """
    with _nvml() as nvml:
        if nvml is None:
            return ()
        found = [_read(nvml, place) for place in range(_count(nvml))]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = _chosen(visible, [uuid for uuid, *_ in found])
    return tuple(
        CudaDevice(index, name, total, free)
        for index, (_, name, total, free) in enumerate(found[place] for place in chosen)
    )


@contextmanager
def _nvml() -> Iterator[ctypes.CDLL | None]:
    try:
        nvml = ctypes.CDLL(_LIBRARY)
    except OSError:
        yield None
        return
    if nvml.nvmlInit_v2() != _OK:
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _count(nvml: ctypes.CDLL) -> int:
    count = ctypes.c_uint()
    return count.value if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == _OK else 0


def _read(nvml: ctypes.CDLL, place: int) -> tuple[str, str, int, int]:
    """UUID, name, and total and free bytes of the device at a place."""
    handle = ctypes.c_void_p()
    nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(place), ctypes.byref(handle))
    memory = _Memory()
    nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    return (
        _text(nvml.nvmlDeviceGetUUID, handle),
        _text(nvml.nvmlDeviceGetName, handle),
        memory.total,
        memory.free,
    )


def _text(ask: object, handle: ctypes.c_void_p) -> str:
    buffer = ctypes.create_string_buffer(96)
    assert callable(ask)
    ask(handle, buffer, ctypes.c_uint(len(buffer)))
    return buffer.value.decode(errors="replace")


def _chosen(visible: str | None, uuids: list[str]) -> list[int]:
    """Places of the devices that the variable names; the first that is none ends the list."""
    if visible is None:
        return list(range(len(uuids)))
    places: list[int] = []
    for entry in (part.strip() for part in visible.split(",")):
        matching = [place for place, uuid in enumerate(uuids) if entry and uuid.startswith(entry)]
        if entry.isdecimal() and int(entry) < len(uuids):
            places.append(int(entry))
        elif len(matching) == 1:
            places.append(matching[0])
        else:
            break
    return places
