"""Which GPUs an engine may see: vLLM takes the first ones of those."""

from __future__ import annotations

import math
from collections.abc import Mapping

from duplex_sdk.stage.types import Json

__all__ = ["engine_width", "visible_devices"]

_SPLITS = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


def engine_width(arguments: Mapping[str, Json]) -> int:
    """How many devices an engine with these arguments uses."""
    return math.prod(int(arguments.get(name) or 1) for name in _SPLITS)


def visible_devices(device: str, width: int, visible: str | None) -> str | None:
    """What ``CUDA_VISIBLE_DEVICES`` must say.

    Args:
        device: ``cuda:N`` for the N-th of the devices visible so far, or anything else.
        width: how many devices the engine uses, beginning with that one.
        visible: what the variable says so far; None: it is not set.

    Returns:
        The new value; None: nothing is to be changed.
    """
    kind, _, number = device.partition(":")
    if kind != "cuda" or not number.isdecimal():
        return None
    first = int(number)
    if not visible:
        return ",".join(str(first + index) for index in range(width))
    names = [name.strip() for name in visible.split(",")]
    return ",".join(names[first : first + width]) or None
