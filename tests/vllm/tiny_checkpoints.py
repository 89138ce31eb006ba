"""Model folders as Hugging Face stores them, made from nothing but numpy."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["HIDDEN", "PLACEHOLDER", "VOCABULARY", "random_model", "talking_model"]

VOCABULARY = 512
HIDDEN = 128
PLACEHOLDER = 300
LAYERS = 2
HEADS, KV_HEADS, HEAD_SIZE, INNER = 4, 2, 32, 256

_END = "<|end|>"
_ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
_TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

Weights = Mapping[str, NDArray[np.float32]]


def random_model(folder: Path, *, seed: int = 7) -> NDArray[np.float32]:
    """A model that says anything, and never ends by itself; returns its table of embeddings."""
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return random.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    embeddings = random.normal(0, 1, (VOCABULARY, HIDDEN)).astype(np.float32)
    head = matrix(VOCABULARY, HIDDEN)
    # Nothing but bytes can be said: no special token comes out of it.
    head[256:] = 0
    weights = {"model.embed_tokens.weight": embeddings, "lm_head.weight": head}
    for layer in range(LAYERS):
        weights |= {
            f"model.layers.{layer}.{name}": matrix(rows, columns)
            for name, rows, columns in _matrices(HIDDEN)
        }
        # Left to chance it would hardly look at anything but the token before.
        weights[f"model.layers.{layer}.self_attn.o_proj.weight"] *= 6
    _write(folder, "HearingQwen3ForCausalLM", HIDDEN, VOCABULARY, weights)
    return embeddings


def talking_model(folder: Path, sentences: Sequence[str]) -> None:
    """A chat model that answers everything with the same sentences, each of which is one token.

    It looks at nothing but the token before: its successor is written into the last layer.
    """
    said = [sentence if not at else f" {sentence}" for at, sentence in enumerate(sentences)]
    vocabulary = 256 + len(_ROLES) + 1 + len(said)
    hidden = -(-vocabulary // 64) * 64
    embeddings = np.eye(vocabulary, hidden, dtype=np.float32)
    end, assistant, first = 256 + len(_ROLES), 256 + _ROLES.index("<|assistant|>"), 260
    successors = np.full(vocabulary, end)
    chain = [assistant, *range(first, first + len(said)), end]
    for token, following in itertools.pairwise(chain):
        successors[token] = following
    head = np.zeros((vocabulary, hidden), np.float32)
    head[successors, np.arange(vocabulary)] = 1
    weights = {"model.embed_tokens.weight": embeddings, "lm_head.weight": head}
    for layer in range(LAYERS):
        weights |= {
            f"model.layers.{layer}.{name}": np.zeros((rows, columns), np.float32)
            for name, rows, columns in _matrices(hidden)
        }
    _write(folder, "Qwen3ForCausalLM", hidden, vocabulary, weights, said)


def _matrices(hidden: int) -> list[tuple[str, int, int]]:
    attention, keys = HEADS * HEAD_SIZE, KV_HEADS * HEAD_SIZE
    return [
        ("self_attn.q_proj.weight", attention, hidden),
        ("self_attn.k_proj.weight", keys, hidden),
        ("self_attn.v_proj.weight", keys, hidden),
        ("self_attn.o_proj.weight", hidden, attention),
        ("mlp.gate_proj.weight", INNER, hidden),
        ("mlp.up_proj.weight", INNER, hidden),
        ("mlp.down_proj.weight", hidden, INNER),
    ]


def _write(
    folder: Path,
    architecture: str,
    hidden: int,
    vocabulary: int,
    weights: Weights,
    said: Sequence[str] = (),
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    end = 256 + len(_ROLES)
    config = {
        "architectures": [architecture],
        "model_type": "qwen3",
        "hidden_size": hidden,
        "vocab_size": vocabulary,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_SIZE,
        "intermediate_size": INNER,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "eos_token_id": end,
        "torch_dtype": "float32",
    }
    _json(folder / "config.json", config)
    _json(folder / "generation_config.json", {"eos_token_id": end, "temperature": 0.7})
    _write_tokenizer(folder, said)
    _write_weights(folder / "model.safetensors", {**_norms(hidden), **weights})


def _norms(hidden: int) -> dict[str, NDArray[np.float32]]:
    norms = {"model.norm.weight": np.ones(hidden, np.float32)}
    for layer in range(LAYERS):
        for name, size in (
            ("input_layernorm", hidden),
            ("post_attention_layernorm", hidden),
            ("self_attn.q_norm", HEAD_SIZE),
            ("self_attn.k_norm", HEAD_SIZE),
        ):
            norms[f"model.layers.{layer}.{name}.weight"] = np.ones(size, np.float32)
    return norms


def _write_tokenizer(folder: Path, said: Sequence[str]) -> None:
    """Every byte is a token; so are the marks of the template and whole sentences."""
    specials = [*_ROLES, _END]
    added = [
        {
            "id": 256 + index,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": content in specials,
        }
        for index, content in enumerate([*specials, *said])
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": False,
        },
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": False,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {letter: byte for byte, letter in enumerate(_byte_letters())},
            "merges": [],
        },
    }
    _json(folder / "tokenizer.json", tokenizer)
    _json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": _END,
            "chat_template": _TEMPLATE,
            "clean_up_tokenization_spaces": False,
        },
    )


def _byte_letters() -> list[str]:
    """The letter that stands for each byte in tokenizers of the byte level."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(hidden)) for byte in range(256)]


def _write_weights(path: Path, weights: Weights) -> None:
    """The format of safetensors: a length, a table in JSON, the numbers."""
    table: dict[str, Any] = {}
    offset = 0
    for name, array in weights.items():
        table[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    header = json.dumps({**table, "__metadata__": {"format": "pt"}}).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for array in weights.values():
            file.write(np.ascontiguousarray(array).tobytes())


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
