"""An hour on the line: what callers leave behind must not add up."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from model_runs import Bench, speech

from duplex_plugin_personaplex.figures import FRAME_MS
from duplex_plugin_personaplex.testing import write_tiny_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

MINUTE = 60_000 // FRAME_MS
# The allocator's own comings and goings. A hundred bytes kept of every frame would be more.
ALLOWED_KB = 4096


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("hour"), layers=1)


@contextmanager
def line(folder: Path, slots: int) -> Iterator[Bench]:
    bench = Bench(folder, slots=slots, window_policy="drift")
    yield bench
    bench.host.shutdown()


def resident_kb() -> int:
    """What this process holds right now, not the most it ever held."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def stays_flat(bench: Bench, minutes: int, guests: int) -> None:
    """One caller talks all the while, and its window wraps; guests change by the minute."""
    sound = speech(MINUTE, seed=1)
    bench.open("stays", seed=1)
    held = []
    for minute in range(minutes):
        names = [f"{minute}-{guest}" for guest in range(guests)]
        for seed, name in enumerate(names):
            bench.open(name, seed=seed, voice=("NATF0", "VARM4")[seed % 2])
        for frame in sound:
            said = bench.frames(dict.fromkeys(("stays", *names), frame))
        assert len(said) == guests + 1
        assert all(np.isfinite(output.audio.numpy()).all() for output in said.values())
        for name in names:
            bench.close(name)
        held.append(resident_kb())
        print(f"minute {minute + 1}: {held[-1]} kB", flush=True)
    # The first minute fills caches and the allocator's pools.
    assert max(held[1:]) - held[0] < ALLOWED_KB, held


def test_an_hour_of_sound_from_callers_coming_and_going_keeps_memory_flat(folder: Path) -> None:
    """Eight at a time for eight minutes: 48,000 frames."""
    with line(folder, slots=8) as bench:
        stays_flat(bench, minutes=8, guests=7)


def test_a_caller_who_stays_for_an_hour_keeps_memory_flat(folder: Path) -> None:
    """45,000 frames of one session."""
    with line(folder, slots=1) as bench:
        stays_flat(bench, minutes=60, guests=0)
