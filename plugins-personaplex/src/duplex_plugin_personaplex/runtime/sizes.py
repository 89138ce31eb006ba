"""The sizes of a checkpoint, read from the shapes of its tensors.

``config.json`` of the release is empty. What no shape tells (how many heads, how long the windows)
has the release's value unless ``duplex_overrides.json`` beside the weights says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from duplex_plugin_personaplex.figures import CONTEXT_FRAMES, FRAME_SAMPLES, RATE

from .errors import CheckpointError
from .headers import Header
from .prompt import SILENCE, TONE

__all__ = [
    "RELEASE",
    "RELEASE_MIMI",
    "LmSizes",
    "MimiSizes",
    "lm_sizes",
    "mimi_sizes",
    "read_overrides",
]

OVERRIDES_NAME = "duplex_overrides.json"
AGENT_CODES = 8
_HEAD_DIM = 128
_DEPTH_HEAD_DIM = 64
_MIMI_HEAD_DIM = 64
_MIMI_CONTEXT = 250
_OVERRIDES = frozenset(
    {"num_heads", "depformer_num_heads", "context", "mimi_num_heads", "mimi_context"}
)


@dataclass(frozen=True, slots=True)
class LmSizes:
    """Sizes of the language model.

    ``depth_steps`` is how many the file has; the model is built with ``AGENT_CODES``, because the
    others would only predict codes of the caller, which are known.
    """

    dim: int
    text_card: int
    card: int
    code_rows: int
    layers: int
    heads: int
    hidden: int
    context: int
    depth_dim: int
    depth_layers: int
    depth_heads: int
    depth_hidden: int
    depth_steps: int

    def arguments(self) -> dict[str, Any]:
        """What moshi's model wants to be built with."""
        half = self.code_rows // 2
        return {
            "dim": self.dim,
            "text_card": self.text_card,
            "existing_text_padding_id": 3,
            "n_q": self.code_rows,
            "dep_q": AGENT_CODES,
            "card": self.card,
            "num_heads": self.heads,
            "num_layers": self.layers,
            "hidden_scale": (_feed_forward(self.dim, self.hidden) + 0.5) / self.dim,
            "causal": True,
            "layer_scale": None,
            "context": self.context,
            "max_period": 10_000,
            "gating": "silu",
            "norm": "rms_norm_f32",
            "positional_embedding": "rope",
            "depformer_dim": self.depth_dim,
            "depformer_dim_feedforward": _feed_forward(self.depth_dim, self.depth_hidden),
            "depformer_num_heads": self.depth_heads,
            "depformer_num_layers": self.depth_layers,
            "depformer_layer_scale": None,
            "depformer_multi_linear": True,
            "depformer_context": AGENT_CODES,
            "depformer_max_period": 10_000,
            "depformer_gating": "silu",
            "depformer_pos_emb": "none",
            "depformer_weights_per_step": True,
            "delays": [0, *([0] + [1] * (half - 1)) * 2],
        }

    def kv_bytes(self, item_bytes: int) -> int:
        """Memory of one caller's window in the temporal model."""
        return self.layers * 2 * self.context * self.dim * item_bytes


@dataclass(frozen=True, slots=True)
class MimiSizes:
    """Sizes of the codec."""

    filters: int
    dimension: int
    kernel: int
    residual_kernel: int
    last_kernel: int
    compress: int
    ratios: tuple[int, ...]
    downsample: int
    layers: int
    heads: int
    feed_forward: int
    context: int
    codebook_dim: int
    bins: int
    codebooks: int

    @property
    def frame_samples(self) -> int:
        """Samples that become one frame of codes."""
        samples = self.downsample
        for ratio in self.ratios:
            samples *= ratio
        return samples

    def arguments(self) -> dict[str, Any]:
        """What moshi's codec wants to be built with."""
        return {
            "sample_rate": RATE,
            "channels": 1,
            "frame_rate": RATE / self.frame_samples,
            "seanet": {
                "channels": 1,
                "dimension": self.dimension,
                "causal": True,
                "n_filters": self.filters,
                "n_residual_layers": 1,
                "activation": "ELU",
                "compress": self.compress,
                "dilation_base": 2,
                "disable_norm_outer_blocks": 0,
                "kernel_size": self.kernel,
                "residual_kernel_size": self.residual_kernel,
                "last_kernel_size": self.last_kernel,
                "norm": "none",
                "pad_mode": "constant",
                "ratios": list(self.ratios),
                "true_skip": True,
            },
            "quantizer": {
                "dimension": self.codebook_dim,
                "n_q": self.codebooks,
                "bins": self.bins,
                "input_dimension": self.dimension,
                "output_dimension": self.dimension,
            },
            "transformer": {
                "d_model": self.dimension,
                "num_heads": self.heads,
                "num_layers": self.layers,
                "causal": True,
                "layer_scale": 0.01,
                "context": self.context,
                "conv_layout": True,
                "max_period": 10_000,
                "gating": "none",
                "norm": "layer_norm",
                "positional_embedding": "rope",
                "dim_feedforward": self.feed_forward,
                "input_dimension": self.dimension,
                "output_dimensions": [self.dimension],
            },
        }


RELEASE = LmSizes(
    dim=4096,
    text_card=32_000,
    card=2048,
    code_rows=16,
    layers=32,
    heads=32,
    hidden=11_264,
    context=CONTEXT_FRAMES,
    depth_dim=1024,
    depth_layers=6,
    depth_heads=16,
    depth_hidden=2816,
    depth_steps=16,
)
"""The language model of PersonaPlex 7B."""

RELEASE_MIMI = MimiSizes(
    filters=64,
    dimension=512,
    kernel=7,
    residual_kernel=3,
    last_kernel=3,
    compress=2,
    ratios=(8, 6, 5, 4),
    downsample=2,
    layers=8,
    heads=8,
    feed_forward=2048,
    context=_MIMI_CONTEXT,
    codebook_dim=256,
    bins=2048,
    codebooks=32,
)
"""Its codec."""


def read_overrides(folder: Path) -> dict[str, int]:
    """The numbers in ``duplex_overrides.json``; none where there is no such file.

    Raises:
        CheckpointError: it holds something else.
    """
    path = folder / OVERRIDES_NAME
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(found, dict) or not set(found) <= _OVERRIDES:
        raise CheckpointError(f"{path.name} may only name {', '.join(sorted(_OVERRIDES))}")
    if not all(type(value) is int and value > 0 for value in found.values()):
        raise CheckpointError(f"{path.name}: every value must be a whole number above zero")
    return found


def lm_sizes(header: Header, overrides: Mapping[str, int]) -> LmSizes:
    """Sizes of the language model in this file.

    One that is as wide as the release is the release: it has as many layers, though some may be
    missing from the file. Counted, a file that lost its last layer would be a shallower model.

    Raises:
        CheckpointError: a tensor that tells a size is missing, or the sizes cannot be.
    """
    text_rows, dim = header.shape("text_emb.weight", 2)
    _, depth_dim = header.shape("depformer_text_emb.weight", 2)
    layer = "transformer.layers.0."
    depth_layer = "depformer.layers.0."
    sizes = LmSizes(
        dim=dim,
        text_card=text_rows - 1,
        card=header.shape("emb.0.weight", 2)[0] - 1,
        code_rows=header.count("emb.{}.weight"),
        layers=header.count("transformer.layers.{}.norm1.alpha"),
        heads=overrides.get("num_heads", max(1, dim // _HEAD_DIM)),
        hidden=header.shape(layer + "gating.linear_out.weight", 2)[1],
        context=overrides.get("context", CONTEXT_FRAMES),
        depth_dim=depth_dim,
        depth_layers=header.count("depformer.layers.{}.norm1.alpha"),
        depth_heads=overrides.get("depformer_num_heads", max(1, depth_dim // _DEPTH_HEAD_DIM)),
        depth_hidden=header.shape(depth_layer + "gating.0.linear_out.weight", 2)[1],
        depth_steps=header.count("linears.{}.weight"),
    )
    _check_lm(header, sizes)
    whole = replace(sizes, layers=RELEASE.layers, depth_layers=RELEASE.depth_layers)
    return whole if replace(whole, depth_steps=RELEASE.depth_steps) == RELEASE else sizes


def _check_lm(header: Header, sizes: LmSizes) -> None:
    if sizes.code_rows != 2 * AGENT_CODES:
        raise CheckpointError(
            f"{header.path.name} has {sizes.code_rows} code embeddings 'emb.N.weight';"
            f" this family has {2 * AGENT_CODES}"
        )
    if sizes.depth_steps not in (AGENT_CODES, 2 * AGENT_CODES):
        raise CheckpointError(
            f"{header.path.name} has {sizes.depth_steps} depth steps 'linears.N.weight';"
            f" this family has {AGENT_CODES} or {2 * AGENT_CODES}"
        )
    highest = max(*TONE, *SILENCE)
    if sizes.card <= highest:
        raise CheckpointError(
            f"{header.path.name} knows {sizes.card} codes by 'emb.0.weight';"
            f" every prompt has the code {highest}"
        )
    _check_heads(header, "text_emb.weight", sizes.dim, sizes.heads)
    _check_heads(header, "depformer_text_emb.weight", sizes.depth_dim, sizes.depth_heads)


def _check_heads(header: Header, name: str, width: int, heads: int) -> None:
    # Positions turn pairs of values, so a head has an even number of them.
    if width % (2 * heads):
        raise CheckpointError(
            f"{header.path.name}: {heads} heads cannot share the width of {name!r}, {width}",
            hint=f"{OVERRIDES_NAME} beside it says how many heads there are",
        )


def mimi_sizes(header: Header, overrides: Mapping[str, int]) -> MimiSizes:
    """Sizes of the codec in this file; one as wide as the release's is whole, as above.

    Raises:
        CheckpointError: a tensor that tells a size is missing, or its frame is not 80 ms.
    """
    first = header.shape("encoder.model.0.conv.conv.weight", 3)
    residual = header.shape("encoder.model.1.block.1.conv.conv.weight", 3)
    stages: list[int] = []
    while (name := f"encoder.model.{3 * len(stages) + 3}.conv.conv.weight") in header.tensors:
        stages.append(header.shape(name, 3)[2] // 2)
    widest = f"encoder.model.{3 * len(stages) + 2}.conv.conv.weight"
    last = header.shape(widest, 3)
    codebook = "vq.layers.{}._codebook.embedding_sum"
    bins, codebook_dim = header.shape("quantizer.rvq_first." + codebook.format(0), 2)
    dimension = last[0]
    layers = "encoder_transformer.transformer.layers.{}.norm1.weight"
    first_layer = layers.format(0).removesuffix("norm1.weight")
    sizes = MimiSizes(
        filters=first[0],
        dimension=dimension,
        kernel=first[2],
        residual_kernel=residual[2],
        last_kernel=last[2],
        compress=max(1, first[0] // residual[0]),
        ratios=tuple(reversed(stages)),
        downsample=header.shape("downsample.conv.conv.conv.weight", 3)[2] // 2,
        layers=header.count(layers),
        heads=overrides.get("mimi_num_heads", max(1, dimension // _MIMI_HEAD_DIM)),
        feed_forward=header.shape(first_layer + "linear1.weight", 2)[0],
        context=overrides.get("mimi_context", _MIMI_CONTEXT),
        codebook_dim=codebook_dim,
        bins=bins,
        codebooks=1 + header.count("quantizer.rvq_rest." + codebook),
    )
    _check_heads(header, widest, sizes.dimension, sizes.heads)
    if sizes.frame_samples != FRAME_SAMPLES or sizes.codebooks < AGENT_CODES:
        raise CheckpointError(
            f"{header.path.name} makes {sizes.codebooks} codes of {sizes.frame_samples} samples;"
            f" {AGENT_CODES} of {FRAME_SAMPLES} are needed"
        )
    whole = replace(sizes, layers=RELEASE_MIMI.layers, codebooks=RELEASE_MIMI.codebooks)
    return whole if whole == RELEASE_MIMI else sizes


def _feed_forward(dim: int, hidden: int) -> int:
    """The width moshi is to be told for a gate of ``hidden``; it has a rule of its own at 4x."""
    if hidden == 21 * dim // 8:
        return 4 * dim
    return -(-3 * hidden // 2)
