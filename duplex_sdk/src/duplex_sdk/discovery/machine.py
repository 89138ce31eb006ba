"""Is this machine fit? Interpreter, packages, memory, GPUs and sound, for ``duplex doctor``."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import platform
import sys
from typing import Any

from duplex_sdk.stage import StageLoadError
from duplex_sdk.stage.device import (
    CudaDevice,
    cuda_devices,
    free_memory,
    free_memory_or_raise,
    resolve_device,
)

from .dependencies import check_dependencies
from .report import Check, Report

__all__ = ["check_memory", "examine_machine"]

_GIB = 1024**3
_OURS = ("duplex-sdk", "duplex-server")


def examine_machine() -> Report:
    """Look at what is there; loads no model."""
    return Report(
        "machine",
        (
            _interpreter(),
            *(_package(name) for name in _OURS),
            _main_memory(),
            *_devices(cuda_devices(), _version("torch")),
            _audio(),
        ),
    )


def check_memory(needed: int) -> Check:
    """Whether a model of so many bytes fits where it would be put when nobody says where."""
    device = resolve_device(None)
    try:
        free_memory_or_raise(device, needed)
    except StageLoadError as error:
        return Check("memory", False, str(error), error.hint)
    return Check("memory", True, f"{needed / _GIB:.1f} GiB needed on {device}")


def _interpreter() -> Check:
    place = "an environment" if sys.prefix != sys.base_prefix else "the system's Python"
    detail = f"{platform.python_implementation()} {platform.python_version()}, {place}"
    return Check("interpreter", True, f"{detail}: {sys.executable}")


def _package(name: str) -> Check:
    version = _version(name)
    if version is None:
        # An environment that only holds a model's runtime needs no server.
        return Check(name, True, f"not installed; `pip install {name}` lets this one serve")
    unmet = check_dependencies(importlib.metadata.requires(name) or ())
    if unmet.ok:
        return Check(name, True, version)
    return Check(name, False, f"{version} lacks {unmet.detail}", unmet.hint)


def _main_memory() -> Check:
    free = free_memory("cpu")
    return Check("memory", True, "unknown" if free is None else f"{free / _GIB:.1f} GiB free")


def _devices(devices: tuple[CudaDevice, ...], torch: str | None) -> list[Check]:
    """Of every GPU one, and whether the torch that is installed here can use it."""
    if not devices:
        return [Check("GPU", True, "none that a driver tells of; models run on the CPU")]
    checks = [
        Check(
            f"GPU cuda:{device.index}",
            True,
            f"{device.name}, {device.free_bytes / _GIB:.1f} of"
            f" {device.total_bytes / _GIB:.1f} GiB free",
        )
        for device in devices
    ]
    if torch is not None and torch.endswith("+cpu"):
        hint = "pip install --force-reinstall torch, from the index of its CUDA builds"
        checks.append(Check("torch", False, f"{torch} was built without CUDA", hint))
    return checks


def _audio() -> Check:
    """Whether ``duplex talk`` finds a microphone and a loudspeaker; a server needs neither."""
    if importlib.util.find_spec("sounddevice") is None:
        hint = "pip install 'duplex-sdk[audio]'"
        return Check("audio", True, f"not installed; `{hint}` lets `duplex talk` use a microphone")
    try:
        sound: Any = importlib.import_module("sounddevice")
        devices = sound.query_devices()
    except Exception as error:  # PortAudio is missing, or fails in ways of its own
        detail = f"sounddevice does not work: {error}"
        return Check(
            "audio", False, detail, "install PortAudio, such as: apt install libportaudio2"
        )
    ears = sum(device["max_input_channels"] > 0 for device in devices)
    mouths = sum(device["max_output_channels"] > 0 for device in devices)
    return Check("audio", True, f"{ears} to record from, {mouths} to play on")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
