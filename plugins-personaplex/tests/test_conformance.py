"""The conformance kit, with the tiny checkpoint in place of the release."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import PluginSpec
from duplex_sdk.stage import Json
from duplex_sdk.testing import ModelConformance
from model_runs import speech

from duplex_plugin_personaplex import plugin
from duplex_plugin_personaplex.figures import RATE
from duplex_plugin_personaplex.testing import write_tiny_checkpoint


@cache
def tiny() -> Path:
    """Written once; a suite's options are read where there is no fixture."""
    folder = Path(tempfile.mkdtemp(prefix="personaplex-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write_tiny_checkpoint(folder / "checkpoint", layers=1)


class TestPersonaPlex(ModelConformance):
    @property
    def spec(self) -> PluginSpec:
        return plugin

    @property
    def options(self) -> Mapping[str, Json]:
        return {"checkpoint": str(tiny())}

    @property
    def turns(self) -> tuple[PcmChunk, ...]:
        return tuple(PcmChunk.of(speech(6 + n, seed=n).ravel(), RATE) for n in range(3))

    @property
    def answers_within_s(self) -> float:
        return 0.8

    @property
    def longest_turn_s(self) -> float:
        return 4.0

    @property
    def cancel_points(self) -> int:
        # It answers every frame, and a cancel only mutes: one point is like the next.
        return 3

    @property
    def lives(self) -> int:
        return 3
