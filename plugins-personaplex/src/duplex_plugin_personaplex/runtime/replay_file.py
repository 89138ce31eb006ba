"""A ``.pt`` of a voice: what the model once read of it, looked at before a caller has it."""

from __future__ import annotations

import io
from typing import Any

import torch

from .errors import CheckpointError
from .prompt import MAX_VOICE_FRAMES, ReplayVoice
from .sizes import LmSizes

__all__ = ["read_replay"]

# Cells of the ring that nothing was written to yet.
_UNWRITTEN = -2


def read_replay(data: bytes, sizes: LmSizes, name: str) -> ReplayVoice:
    """The voice in a file.

    Args:
        data: of the file.
        sizes: of the model it is for.
        name: of the voice, for messages.

    Raises:
        CheckpointError: it is damaged, was made with another model, or is too long.
    """
    try:
        found: Any = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        voice = ReplayVoice(found["embeddings"].flatten(1), found["cache"].reshape(17, -1))
    except Exception as error:
        # A damaged pickle fails in whatever its bytes happen to mean.
        raise CheckpointError(f"the voice {name!r} is damaged: {error}") from error
    if not (_fits(voice.embeddings, sizes) and _knows(voice.ring, sizes)):
        raise CheckpointError(f"the voice {name!r} was made with another model")
    if not bool(torch.isfinite(voice.embeddings).all()):
        raise CheckpointError(f"the voice {name!r} holds values that are no finite numbers")
    if voice.frames > MAX_VOICE_FRAMES:
        raise CheckpointError(
            f"the voice {name!r} takes {voice.frames} frames of 80 ms;"
            f" a prompt has room for {MAX_VOICE_FRAMES}"
        )
    return voice


def _fits(embeddings: torch.Tensor, sizes: LmSizes) -> bool:
    steps, *width = embeddings.shape
    dense = embeddings.layout == torch.strided and embeddings.is_floating_point()
    return dense and steps > 0 and width == [sizes.dim]


def _knows(ring: torch.Tensor, sizes: LmSizes) -> bool:
    """Whether the model has these tokens. One that it has not would end the worker on a GPU."""
    if ring.shape != (17, 4) or ring.is_floating_point() or ring.is_complex():
        return False
    text, codes = int(ring[0].max()), int(ring[1:].max())
    return int(ring.min()) >= _UNWRITTEN and text <= sizes.text_card and codes <= sizes.card
