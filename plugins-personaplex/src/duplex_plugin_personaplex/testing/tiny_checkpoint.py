"""A checkpoint with the release's files and key names, random weights, and a few megabytes.

The weights are random but not arbitrary: the text channel mostly pads, so that there are pauses
between utterances, and the sound is quiet, so that the text alone makes them.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import sentencepiece
import torch
from moshi.models import loaders
from safetensors.torch import save_file

from duplex_plugin_personaplex.runtime.manifest import lm_manifest
from duplex_plugin_personaplex.runtime.prompt import TONE
from duplex_plugin_personaplex.runtime.sizes import OVERRIDES_NAME, LmSizes, MimiSizes
from duplex_plugin_personaplex.runtime.source import LM_NAME, MIMI_NAME, TEXT_NAME, VOICES_NAME
from duplex_plugin_personaplex.voices import BUNDLED_VOICES

__all__ = ["write_tiny_checkpoint"]

_MOST_PIECES = 96
_PAD = 3
_VOICE_STEPS = 12
# How strongly the text channel prefers to pad; found by trying.
_PAD_BIAS = 8.0
_LOUDNESS = 0.008

_SENTENCES = (
    "You are a wise and friendly teacher.",
    "Answer questions or provide advice in a clear and engaging way.",
    "Hello, how can I help you today?",
    "Thank you for calling, goodbye.",
    "I do not know that, but I can find out.",
)


def write_tiny_checkpoint(
    folder: Path, *, depth_steps: int = 16, layers: int = 2, context: int = 600, seed: int = 7
) -> Path:
    """Write a checkpoint into a folder, the same each time.

    Args:
        folder: made if it is not there.
        depth_steps: 16 as in the release, or 8.
        layers: of each of the four transformers; with one a frame takes half the time.
        context: frames of the window.
        seed: of the weights.

    Returns:
        The folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    sizes = _lm_sizes(depth_steps, layers, context, text_card=_write_tokenizer(folder / TEXT_NAME))
    lm = _lm_weights(sizes, generator)
    save_file({name: value.bfloat16() for name, value in lm.items()}, folder / LM_NAME)
    save_file(_mimi_weights(_mimi_sizes(layers), generator), folder / MIMI_NAME)
    _write_voices(folder / VOICES_NAME, lm, sizes, generator)
    (folder / "config.json").write_text("{}\n")
    overrides = {
        "num_heads": sizes.heads,
        "depformer_num_heads": sizes.depth_heads,
        "context": sizes.context,
        "mimi_num_heads": 2,
        "mimi_context": 250,
    }
    (folder / OVERRIDES_NAME).write_text(json.dumps(overrides))
    return folder


def _lm_sizes(depth_steps: int, layers: int, context: int, text_card: int) -> LmSizes:
    return LmSizes(
        dim=32,
        text_card=text_card,
        card=2048,
        code_rows=16,
        layers=layers,
        heads=2,
        hidden=88,
        context=context,
        depth_dim=16,
        depth_layers=layers,
        depth_heads=2,
        depth_hidden=44,
        depth_steps=depth_steps,
    )


def _mimi_sizes(layers: int) -> MimiSizes:
    return MimiSizes(
        filters=2,
        dimension=16,
        kernel=7,
        residual_kernel=3,
        last_kernel=3,
        compress=2,
        ratios=(8, 6, 5, 4),
        downsample=2,
        layers=layers,
        heads=2,
        feed_forward=32,
        context=250,
        codebook_dim=8,
        bins=2048,
        codebooks=32,
    )


def _lm_weights(sizes: LmSizes, generator: torch.Generator) -> dict[str, torch.Tensor]:
    weights = {}
    for name, shape in lm_manifest(sizes).items():
        if name.endswith("alpha"):
            weights[name] = torch.ones(shape)
            continue
        # Steep enough that what was heard decides what is said.
        scale = 1.0 if "emb" in name else 2.0 / shape[-1] ** 0.5
        weights[name] = scale * torch.randn(shape, generator=generator)
    # One direction that every input has: the padding's row of the text head leans on it.
    leaning = torch.randn(sizes.dim, generator=generator)
    leaning /= leaning.norm()
    weights["text_emb.weight"] += 20.0 * leaning
    weights["text_linear.weight"][_PAD] += _PAD_BIAS * leaning
    return weights


def _mimi_weights(sizes: MimiSizes, generator: torch.Generator) -> dict[str, torch.Tensor]:
    model = loaders.get_mimi(None, sizes.arguments())
    weights = {}
    for name, value in model.state_dict().items():
        name = name.replace("in_projs.0.weight", "in_proj_weight")
        name = name.replace("out_projs.0.weight", "out_proj.weight")
        weights[name] = _mimi_tensor(name, tuple(value.shape), generator)
    weights["decoder.model.14.conv.conv.weight"] *= _LOUDNESS
    weights["decoder.model.14.conv.conv.bias"] *= 0.0
    return weights


def _mimi_tensor(name: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if name.endswith(("_initialized", "cluster_usage", "norm1.weight", "norm2.weight")):
        return torch.ones(shape)
    if name.endswith(".scale"):
        return torch.full(shape, 0.5)
    if name.endswith("bias"):
        return 0.05 * torch.randn(shape, generator=generator)
    fan_in = 1 if "embedding_sum" in name else max(1, torch.Size(shape[1:]).numel())
    weights: torch.Tensor = torch.randn(shape, generator=generator) / fan_in**0.5
    return weights


def _write_tokenizer(path: Path) -> int:
    """Train it on a few sentences; returns how many pieces it has."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_SENTENCES * 4),
        model_writer=model,
        vocab_size=_MOST_PIECES,
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=3,
        user_defined_symbols=["<system>"],
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
    )
    path.write_bytes(model.getvalue())
    return int(sentencepiece.SentencePieceProcessor(str(path)).vocab_size())


def _write_voices(
    path: Path, lm: Mapping[str, torch.Tensor], sizes: LmSizes, generator: torch.Generator
) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name in BUNDLED_VOICES:
            data = io.BytesIO()
            torch.save(_voice(lm, sizes, generator), data)
            member = tarfile.TarInfo(f"voices/{name}.pt")
            member.size = data.tell()
            data.seek(0)
            archive.addfile(member, data)


def _voice(
    lm: Mapping[str, torch.Tensor], sizes: LmSizes, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """A voice as if it had been played to the model: its inputs, and the ring behind them."""
    tokens = torch.randint(sizes.card, (17, _VOICE_STEPS + 4), generator=generator)
    tokens[0] = _PAD
    # Every prompt is read with the same tone on the caller's side.
    tokens[9:] = torch.tensor(TONE)[:, None]
    embeddings = lm["text_emb.weight"][tokens[0]]
    for row in range(sizes.code_rows):
        embeddings = embeddings + lm[f"emb.{row}.weight"][tokens[row + 1]]
    return {
        "embeddings": embeddings[:_VOICE_STEPS, None, None, :].clone(),
        "cache": tokens[None, :, -4:].clone(),
    }
