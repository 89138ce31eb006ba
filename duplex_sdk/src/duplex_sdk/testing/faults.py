"""Faults on purpose: what a hook or a stage does wrong, where, and when. Read from JSON."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from duplex_sdk.audio.chunk import PcmChunk
from duplex_sdk.stage.worker.here import is_worker

__all__ = ["Count", "Fault", "Ms", "find_fault", "hang", "struck"]

Count = Annotated[int, Meta(gt=0)]
Ms = Annotated[float, Meta(ge=0)]

_BAD_AUDIO: dict[str, tuple[float, str, tuple[int, ...]]] = {
    "nan": (float("nan"), "float32", (480,)),
    "clip": (4.0, "float32", (480,)),
    "stereo": (0.0, "float32", (480, 2)),
    "float64": (0.0, "float64", (480,)),
    "int32": (0, "int32", (480,)),
    "wrong_rate": (0.0, "float32", (480,)),
}


class Fault(Struct, frozen=True, forbid_unknown_fields=True):
    """One fault.

    Attributes:
        where: the place that fails.
        do: what happens there; a mapping for what takes time.
        nth: at which call of the place in a session.
    """

    where: Literal["open", "plan", "step", "project", "close", "config"]
    do: (
        Literal["raise", "system_exit", "die", "none", "garbage", "unknown_decision", "empty_speak"]
        | Literal["double", "endless", "nan", "clip", "stereo", "float64", "int32", "wrong_rate"]
        | dict[Literal["hang_ms", "block_ms", "late_ms"], Ms]
    )
    nth: Count | Literal["every"] = 1

    def ms(self, kind: Literal["hang_ms", "block_ms", "late_ms"]) -> float:
        """How long it lasts, when it is of this kind; else 0."""
        return self.do.get(kind, 0.0) if isinstance(self.do, dict) else 0.0

    def bad_audio(self, rate: int) -> PcmChunk | None:
        """Audio made as wrongly as told, at an output rate of ``rate`` Hz; None: no such fault.

        Raises:
            BadAudioError: of the kinds that ``PcmChunk.of`` refuses.
        """
        if not isinstance(self.do, str) or self.do not in _BAD_AUDIO:
            return None
        value, dtype, shape = _BAD_AUDIO[self.do]
        samples = np.full(shape, value, dtype=dtype)
        return PcmChunk.of(samples, rate * 2 if self.do == "wrong_rate" else rate)


def find_fault(faults: Iterable[Fault], where: str, nth: int) -> Fault | None:
    """The first fault for the call number ``nth`` of a place."""
    for each in faults:
        if each.where == where and each.nth in ("every", nth):
            return each
    return None


def struck(fault: Fault | None, result: Any) -> Any:
    """Fail as said, or return what takes the place of ``result``. Blocks when told to.

    Raises:
        RuntimeError: ``raise``.
        SystemExit: ``system_exit``, and ``die`` where the process is not a worker's.
    """
    if fault is None:
        return result
    time.sleep(fault.ms("block_ms") / 1000)
    if fault.do == "die" and is_worker():
        os._exit(1)
    if fault.do in ("system_exit", "die"):
        raise SystemExit("scripted fault")
    if fault.do == "raise":
        raise RuntimeError("scripted fault")
    if fault.do in ("garbage", "unknown_decision"):
        return object()
    return None if fault.do == "none" else result


async def hang(fault: Fault | None) -> None:
    """Wait without blocking, when told to."""
    if fault is not None and fault.ms("hang_ms"):
        await asyncio.sleep(fault.ms("hang_ms") / 1000)
