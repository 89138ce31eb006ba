"""One frame of the language model for all rows at once.

Of the token ring only the column to be read next is kept per row: what a step samples goes into
the column after it, and a caller's late codes too.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from moshi.models import LMModel
from moshi.utils.compile import CUDAGraphed

from duplex_plugin_personaplex.sampling import TOP_K_AUDIO, TOP_K_TEXT

from .draws import pick, uniforms
from .lanes import Batch
from .prompt import Prompt
from .sizes import AGENT_CODES

__all__ = ["FrameStepper", "RowSampling", "SpokenFrame"]


class RowSampling(NamedTuple):
    """How a row samples. Temperature 0 takes the likeliest."""

    temperature: float = 0.8
    top_k: int = TOP_K_AUDIO
    text_temperature: float = 0.7
    text_top_k: int = TOP_K_TEXT
    seed: int = 0


class SpokenFrame(NamedTuple):
    """A frame that is complete: text ``[rows]`` and codes ``[rows, 8]``."""

    text: torch.Tensor
    codes: torch.Tensor


class FrameStepper:
    """Steps the model for a fixed number of rows; those not active stand still.

    Args:
        lm: loaded; used by nobody else.
        rows: size of the batch.
        active: which rows a step moves on, bool ``[rows]``, shared with its owner.
    """

    def __init__(self, lm: LMModel, rows: int, active: torch.Tensor) -> None:
        device = active.device
        self._lm = lm
        self._active = active
        self._batch = Batch(lm, rows, active)
        # A row without a caller is computed too: its tokens must be ones that can be decoded.
        self._column = torch.zeros(rows, 17, dtype=torch.long, device=device)
        self._frame = torch.zeros(rows, dtype=torch.long, device=device)
        self._seed = torch.zeros(rows, dtype=torch.long, device=device)
        self._temperature = torch.zeros(rows, device=device)
        self._text_temperature = torch.zeros(rows, device=device)
        self._top_k = torch.ones(rows, dtype=torch.long, device=device)
        self._text_top_k = torch.ones(rows, dtype=torch.long, device=device)
        on_cpu = device.type != "cuda"
        self.temporal = CUDAGraphed(lm.forward_text, disable=on_cpu)
        self.depth = CUDAGraphed(self._sampled_codes, disable=on_cpu)

    def close(self) -> None:
        """Leave the streaming mode."""
        self._batch.close()

    def reset(self, row: int) -> None:
        """Make a row as good as new."""
        self._batch.reset(row)
        self._column[row] = 0
        self._frame[row] = 0

    def set_sampling(self, row: int, sampling: RowSampling) -> None:
        """How a row samples from its next frame on."""
        self._temperature[row] = sampling.temperature
        self._top_k[row] = sampling.top_k
        self._text_temperature[row] = sampling.text_temperature
        self._text_top_k[row] = sampling.text_top_k
        self._seed[row] = sampling.seed

    @torch.no_grad()
    def replay(self, row: int, embeddings: torch.Tensor) -> None:
        """Read inputs ``[steps, dim]`` that were embedded once before."""
        first = self._lm.text_emb.weight
        with self._batch.lane(row):
            self._lm.transformer(embeddings[None].to(first.device, first.dtype))

    @torch.no_grad()
    def read(self, row: int, columns: torch.Tensor) -> None:
        """Read columns ``[17, columns]`` that are known, of which nothing is to be said."""
        with self._batch.lane(row):
            self._lm.forward_text(columns[None].to(self._column.device))

    @torch.no_grad()
    def begin(self, row: int, prompt: Prompt) -> None:
        """Read the last column of a prompt, of which all before it was read, and answer it."""
        last = prompt.columns[:, -1:].to(self._column.device)
        one = slice(row, row + 1)
        with self._batch.lane(row):
            hidden, text_logits = self._lm.forward_text(last[None])
        draws = uniforms(self._seed[one], self._frame[one] + prompt.frames - 1, 1 + AGENT_CODES)
        text = pick(
            text_logits[:, 0, 0],
            self._text_temperature[one],
            self._text_top_k[one],
            draws[:, 0],
            TOP_K_TEXT,
        )
        codes = self._sampled_codes(
            text, hidden, draws[:, 1:], self._temperature[one], self._top_k[one]
        )
        column = self._column[row]
        column[0], column[1] = text[0], codes[0, 0]
        column[2:9] = prompt.late_codes
        column[9:] = last[9:, 0]
        self._frame[row] = prompt.frames

    @torch.no_grad()
    def step(self, heard: torch.Tensor) -> SpokenFrame:
        """Move the active rows on by one frame.

        Args:
            heard: the callers' codes ``[rows, 8]`` of this frame.

        Returns:
            The frame that this completes.
        """
        column = self._column.clone()
        column[:, 9] = heard[:, 0]
        hidden, text_logits = self.temporal(column[:, :, None])
        draws = uniforms(self._seed, self._frame, 1 + AGENT_CODES)
        text = pick(
            text_logits[:, 0, 0], self._text_temperature, self._text_top_k, draws[:, 0], TOP_K_TEXT
        )
        codes = self.depth(text, hidden, draws[:, 1:], self._temperature, self._top_k)
        following = torch.cat([text[:, None], codes, heard], dim=1)
        self._column = torch.where(self._active[:, None], following, self._column)
        self._frame += self._active
        return SpokenFrame(column[:, 0], torch.cat([column[:, 1:2], codes[:, 1:]], dim=1))

    def _sampled_codes(
        self,
        text: torch.Tensor,
        hidden: torch.Tensor,
        draws: torch.Tensor,
        temperature: torch.Tensor,
        top_k: torch.Tensor,
    ) -> torch.Tensor:
        lm = self._lm
        codes: list[torch.Tensor] = []
        before = text
        with lm.depformer.streaming(text.shape[0]):
            for step in range(AGENT_CODES):
                logits = lm.forward_depformer(step, before[:, None, None], hidden)[:, 0, 0]
                before = pick(logits, temperature, top_k, draws[:, step], TOP_K_AUDIO)
                codes.append(before)
        return torch.stack(codes, dim=1)
