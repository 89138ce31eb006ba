"""Embeddings as inputs that vLLM takes for ready: no processor of the model runs over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duplex_sdk.stage.types import Array

from .context import Embeddings

__all__ = ["items_and_ranges"]

_DTYPES = ("float32", "float16", "bfloat16", "float64")


def items_and_ranges(
    modality: str, embedded: Sequence[tuple[int, Embeddings]]
) -> tuple[Any, list[Any]]:
    """What vLLM calls keyword items, and where their placeholders are.

    Args:
        modality: ``audio`` or ``prompt_embeds``.
        embedded: pairs of an offset in the tokens given beside it and the embeddings there.

    Raises:
        ValueError: their dtype is none that a model computes with.
    """
    from vllm.multimodal.inputs import (
        MultiModalBatchedField,
        MultiModalFieldElem,
        MultiModalKwargsItem,
        MultiModalKwargsItems,
        PlaceholderRange,
    )

    field = f"{modality}_embeds" if modality == "audio" else modality
    items = [
        MultiModalKwargsItem(
            {field: MultiModalFieldElem(_tensor(each.array), MultiModalBatchedField())}
        )
        for _, each in embedded
    ]
    ranges = [PlaceholderRange(offset=offset, length=each.count) for offset, each in embedded]
    return MultiModalKwargsItems({modality: items}), ranges


def _tensor(array: Array) -> Any:
    """A tensor of its own: the engine's processes outlive the bytes it came as."""
    import torch

    if array.dtype not in _DTYPES:
        raise ValueError(f"embeddings are {' or '.join(_DTYPES)}, not {array.dtype}")
    tensor = torch.frombuffer(bytearray(array.data), dtype=getattr(torch, array.dtype))
    return tensor.reshape(array.shape)
