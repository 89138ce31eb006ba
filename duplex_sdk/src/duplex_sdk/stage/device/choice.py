"""Which device a replica gets."""

from __future__ import annotations

import importlib.metadata

from duplex_sdk.stage.model import StageLoadError

from .nvidia import cuda_devices

__all__ = ["resolve_device"]


def resolve_device(wanted: str | None, replica_id: int = 0) -> str:
    """The device a replica is to run on, such as ``cpu`` or ``cuda:0``.

    Args:
        wanted: as deployment and plugin have it; None: CUDA where it is, else the CPU. ``cuda``
            without a number spreads replicas over the devices there are.
        replica_id: which copy of its stage it is.

    Raises:
        StageLoadError: the device is not there.
    """
    if wanted is None:
        count = 0 if _torch_is_for_cpu() else len(cuda_devices())
        return f"cuda:{replica_id % count}" if count else "cpu"
    kind, _, number = wanted.partition(":")
    if kind != "cuda":
        return wanted
    count = len(cuda_devices())
    if not count:
        raise StageLoadError(
            f"device {wanted}: no CUDA device is visible here",
            "leave the device out to run on the CPU; `nvidia-smi` shows what the driver sees",
        )
    if not number:
        return f"cuda:{replica_id % count}"
    if not number.isdecimal() or int(number) >= count:
        raise StageLoadError(f"there is no device {wanted}", f"there is cuda:0 to cuda:{count - 1}")
    return wanted


def _torch_is_for_cpu() -> bool:
    """Whether the environment has a torch that was built without CUDA."""
    try:
        return importlib.metadata.version("torch").endswith("+cpu")
    except importlib.metadata.PackageNotFoundError:
        return False
