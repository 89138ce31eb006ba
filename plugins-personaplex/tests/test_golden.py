"""What the tiny checkpoint says is known, token for token."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from duplex_plugin_personaplex.figures import FRAME_SAMPLES
from duplex_plugin_personaplex.runtime.manifest import lm_manifest
from duplex_plugin_personaplex.runtime.sizes import RELEASE
from duplex_plugin_personaplex.runtime.source import LM_NAME
from duplex_plugin_personaplex.testing.golden import (
    RELEASE_GOLDEN,
    TINY_GOLDEN,
    Golden,
    record,
)


@pytest.fixture(scope="module")
def golden() -> Golden:
    return Golden.read(TINY_GOLDEN)


def test_the_tiny_checkpoint_says_what_it_has_always_said(checkpoint: Path, golden: Golden) -> None:
    said = record(str(checkpoint), device="cpu", frames=len(golden.frames))
    assert said.first_difference(golden) is None
    assert said == golden


def test_what_is_recorded_is_a_conversation(golden: Golden) -> None:
    assert golden.samples == len(golden.frames) * FRAME_SAMPLES
    assert len(set(golden.frames)) > len(golden.frames) // 2
    assert golden.words
    assert all(len(frame) == 9 for frame in golden.frames)


def test_a_difference_is_found_where_it_is(golden: Golden) -> None:
    frames = [list(frame) for frame in golden.frames]
    frames[7][3] += 1
    other = replace(golden, frames=tuple(map(tuple, frames)))
    assert golden.first_difference(other) == 7
    assert golden.first_difference(replace(golden, frames=golden.frames[:9])) is None


def test_the_recorded_release_has_the_tensors_that_we_expect() -> None:
    """The manifest is worked out; the first GPU machine that has the release settles it."""
    if not RELEASE_GOLDEN.exists():
        pytest.skip("nobody has recorded the release yet: `make verify-gpu` does")
    recorded = json.loads(RELEASE_GOLDEN.read_text())["tensors"][LM_NAME]
    shapes = {name: tuple(entry[1:]) for name, entry in recorded.items()}
    assert shapes == lm_manifest(RELEASE)
