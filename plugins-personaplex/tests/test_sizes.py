"""The sizes we read are those moshi knows of the release."""

from __future__ import annotations

import pytest
import torch
from moshi.models import LMModel, loaders

from duplex_plugin_personaplex.runtime.loading import mimi_manifest
from duplex_plugin_personaplex.runtime.manifest import lm_manifest, rows_to_read
from duplex_plugin_personaplex.runtime.sizes import RELEASE, RELEASE_MIMI


def test_the_release_is_built_as_moshi_builds_it() -> None:
    ours, theirs = RELEASE.arguments(), dict(loaders._lm_kwargs)
    assert ours.pop("hidden_scale") == pytest.approx(theirs.pop("hidden_scale"), abs=1e-3)
    assert ours == theirs


def test_the_codec_is_built_as_moshi_builds_it() -> None:
    assert RELEASE_MIMI.arguments() == loaders._mimi_config
    assert RELEASE_MIMI.frame_samples == 1920


def test_the_codec_of_the_release_has_its_tensors() -> None:
    manifest = mimi_manifest(RELEASE_MIMI)
    values = sum(torch.Size(shape).numel() for shape in manifest.values())
    assert len(manifest) == 318
    assert values == pytest.approx(96.2e6, rel=1e-3)
    assert "encoder_transformer.transformer.layers.7.self_attn.in_proj_weight" in manifest


def test_what_is_read_of_the_release_is_what_the_model_holds() -> None:
    model = LMModel(device="meta", dtype=torch.bfloat16, **RELEASE.arguments())
    held = sum(tensor.numel() for tensor in model.state_dict().values())
    read = 0
    for name, shape in lm_manifest(RELEASE).items():
        rows = rows_to_read(name, RELEASE)
        kept = shape if rows is None else (rows, *shape[1:])
        read += torch.Size(kept).numel()
    assert read == held
    # Half of the depth steps: 0.68 billion values that nobody would listen to.
    whole = sum(torch.Size(shape).numel() for shape in lm_manifest(RELEASE).values())
    assert whole - read == pytest.approx(0.68e9, rel=0.02)


def test_a_window_of_the_release_takes_the_memory_that_is_told() -> None:
    assert RELEASE.kv_bytes(2) == pytest.approx(1.57e9, rel=0.01)
