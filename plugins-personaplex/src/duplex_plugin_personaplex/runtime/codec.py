"""Mimi for all rows at once, frame by frame, each row with a state of its own."""

from __future__ import annotations

import torch
from moshi.models import MimiModel

from duplex_plugin_personaplex.figures import FRAME_SAMPLES

from .lanes import Batch

__all__ = ["BatchCodec"]


class BatchCodec:
    """Sound to codes and back. Rows that are not active keep their state.

    Args:
        mimi: loaded; used by nobody else.
        rows: size of the batch.
        active: which rows a call moves on, bool ``[rows]``, shared with its owner.
    """

    def __init__(self, mimi: MimiModel, rows: int, active: torch.Tensor) -> None:
        self._mimi = mimi
        self._batch = Batch(mimi, rows, active)

    def close(self) -> None:
        """Leave the streaming mode."""
        self._batch.close()

    def reset(self, row: int) -> None:
        """Make a row as good as new."""
        self._batch.reset(row)

    @torch.no_grad()
    def encode(self, audio: torch.Tensor) -> torch.Tensor:
        """Codes ``[rows, 8]`` of one frame ``[rows, 1920]``."""
        codes: torch.Tensor = self._mimi.encode(audio[:, None])
        return codes[:, :, 0]

    @torch.no_grad()
    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        """One frame ``[rows, 1920]`` of codes ``[rows, 8]``."""
        audio: torch.Tensor = self._mimi.decode(codes[:, :, None])
        return audio[:, 0]

    @torch.no_grad()
    def encode_in_lane(self, row: int, audio: torch.Tensor) -> torch.Tensor:
        """Codes ``[8, frames]`` of whole frames of one row alone, ``[samples]``."""
        if audio.shape[0] % FRAME_SAMPLES:
            raise ValueError("a lane takes whole frames")
        with self._batch.lane(row):
            codes: torch.Tensor = self._mimi.encode(audio[None, None])
        return codes[0]
