"""A file that is not what it says is refused in words, whatever is wrong with its header."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.stage import StageLoadError

from duplex_plugin_personaplex.runtime.headers import Header, TensorEntry, read_header
from duplex_plugin_personaplex.runtime.loading import mimi_manifest
from duplex_plugin_personaplex.runtime.manifest import compare, lm_manifest, require
from duplex_plugin_personaplex.runtime.sizes import (
    RELEASE,
    RELEASE_MIMI,
    LmSizes,
    lm_sizes,
    mimi_sizes,
    read_overrides,
)
from duplex_plugin_personaplex.runtime.source import LM_NAME, MIMI_NAME

SIZES_OF_THE_MODEL = (
    "text_emb.weight",
    "depformer_text_emb.weight",
    "emb.0.weight",
    "transformer.layers.0.gating.linear_out.weight",
    "depformer.layers.0.gating.0.linear_out.weight",
)
SIZES_OF_THE_CODEC = (
    "encoder.model.0.conv.conv.weight",
    "encoder.model.1.block.1.conv.conv.weight",
    "encoder.model.9.conv.conv.weight",
    "encoder.model.14.conv.conv.weight",
    "quantizer.rvq_first.vq.layers.0._codebook.embedding_sum",
    "downsample.conv.conv.conv.weight",
    "encoder_transformer.transformer.layers.0.linear1.weight",
)


def written(path: Path, header: Any) -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + bytes(8))
    return path


@pytest.mark.parametrize(
    "header",
    [
        [],
        "text",
        3,
        None,
        b"[" * 100_000,
        b"\xff\xfe",
        {"a": []},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [None, None]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": ["0", "4"]}},
        {"a": {"dtype": "F32", "shape": None, "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1e400], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": "1", "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}},
        {"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}},
    ],
    ids=lambda header: str(header)[:40],
)
def test_a_header_that_cannot_be_is_refused_with_the_name_of_its_file(
    tmp_path: Path, header: Any
) -> None:
    with pytest.raises(StageLoadError, match=r"odd\.safetensors"):
        read_header(written(tmp_path / "odd.safetensors", header))


def forms(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Shapes that a tensor of this one might have by mistake."""
    nothing = (0,) * len(shape)
    return [(), nothing, (*shape, 1), shape[:-1], shape[::-1], (0, *shape[1:]), (*shape[:-1], 0)]


def require_all(header: Header, overrides: dict[str, int]) -> None:
    if header.path.name == LM_NAME:
        require(header, lm_manifest(lm_sizes(header, overrides)))
    else:
        require(header, mimi_manifest(mimi_sizes(header, overrides)))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        *((LM_NAME, name) for name in SIZES_OF_THE_MODEL),
        *((MIMI_NAME, name) for name in SIZES_OF_THE_CODEC),
    ],
)
def test_a_tensor_that_tells_a_size_is_named_whatever_its_shape(
    checkpoint: Path, file: str, name: str
) -> None:
    header, overrides = read_header(checkpoint / file), read_overrides(checkpoint)
    entry = header.tensors[name]
    for shape in forms(entry.shape):
        tensors = {**header.tensors, name: replace(entry, shape=shape)}
        odd = replace(header, tensors=tensors)
        # A width that others share is told by one of them, a frame's length by its sum.
        with pytest.raises(StageLoadError, match=rf"{file}.*('[\w.]+\.[\w.]+'|samples)"):
            require_all(odd, overrides)


@pytest.mark.parametrize(
    "heads", [{"num_heads": 3}, {"num_heads": 32}, {"depformer_num_heads": 16}]
)
def test_heads_that_cannot_share_the_width_are_refused(
    checkpoint: Path, heads: dict[str, int]
) -> None:
    with pytest.raises(StageLoadError, match="heads cannot share"):
        lm_sizes(read_header(checkpoint / LM_NAME), {**read_overrides(checkpoint), **heads})


@pytest.mark.parametrize("heads", [3, 16, 5000])
def test_heads_that_cannot_share_the_width_of_the_codec_are_refused(
    checkpoint: Path, heads: int
) -> None:
    with pytest.raises(StageLoadError, match="heads cannot share"):
        mimi_sizes(read_header(checkpoint / MIMI_NAME), {"mimi_num_heads": heads})


def header_of(manifest: dict[str, tuple[int, ...]]) -> Header:
    tensors = {name: TensorEntry(shape, "BF16", 2) for name, shape in manifest.items()}
    return Header(Path("release.safetensors"), tensors)


@pytest.mark.parametrize("steps", [8, 16])
def test_the_release_is_known_by_its_shapes_with_eight_or_sixteen_steps(steps: int) -> None:
    sizes = replace(RELEASE, depth_steps=steps)
    assert lm_sizes(header_of(lm_manifest(sizes)), {}) == sizes


@pytest.mark.parametrize(
    "lost", ["transformer.layers.31.", "depformer.layers.5.", "transformer.layers.7."]
)
def test_a_release_that_lost_a_layer_is_no_shallower_model(lost: str) -> None:
    manifest = {
        name: shape for name, shape in lm_manifest(RELEASE).items() if not name.startswith(lost)
    }
    header = header_of(manifest)
    sizes: LmSizes = lm_sizes(header, {})
    missing = {mismatch.name for mismatch in compare(header, lm_manifest(sizes))}
    assert missing == set(lm_manifest(RELEASE)) - set(manifest)
    with pytest.raises(StageLoadError, match=lost.replace(".", r"\.") + r".* is missing"):
        require(header, lm_manifest(sizes))


def test_a_codec_of_the_release_that_lost_its_last_layers_is_no_shallower_codec() -> None:
    whole = mimi_manifest(RELEASE_MIMI)
    assert mimi_sizes(header_of(whole), {}) == RELEASE_MIMI
    kept = {name: shape for name, shape in whole.items() if ".layers.7." not in name}
    header = header_of(kept)
    missing = compare(header, mimi_manifest(mimi_sizes(header, {})))
    assert {mismatch.name for mismatch in missing} == set(whole) - set(kept)
    assert any(name.startswith("decoder_transformer") for name in set(whole) - set(kept))
