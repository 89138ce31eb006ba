"""Random draws that depend on a session's seed and place, and on nothing else.

A generator per row would have to be moved on row by row; one for the batch would let callers
change each other's tokens. Here a draw is a hash of (seed, frame, which draw), computed for all
rows at once, the same on every device.
"""

from __future__ import annotations

import torch

__all__ = ["pick", "uniforms"]

_MASK = 0xFFFFFFFF


def uniforms(seeds: torch.Tensor, frames: torch.Tensor, count: int) -> torch.Tensor:
    """Numbers in [0, 1) for each row: ``[rows, count]`` from int64 ``[rows]`` seeds and frames."""
    draws = torch.arange(count, device=seeds.device)
    key = _mix(seeds & _MASK) ^ _mix(((seeds >> 32) + 0x9E3779B9) & _MASK)
    key = _mix((key + frames) & _MASK)
    bits = _mix(key[:, None] ^ _mix(draws + 0x85EBCA6B)[None])
    # Of 32 bits a float keeps 24: what would round to 1 is cut off before.
    return (bits >> 8).float() * 2.0**-24


def _mix(value: torch.Tensor) -> torch.Tensor:
    """A 32-bit finaliser in int64; products wrap, their low 32 bits are exact."""
    value = value ^ (value >> 16)
    value = (value * 0x7FEB352D) & _MASK
    value = value ^ (value >> 15)
    value = (value * 0x846CA68B) & _MASK
    return value ^ (value >> 16)


def pick(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_k: torch.Tensor,
    uniform: torch.Tensor,
    most: int,
) -> torch.Tensor:
    """One token per row.

    Args:
        logits: ``[rows, card]``.
        temperature: ``[rows]``; a row with 0 takes the likeliest token.
        top_k: ``[rows]``, at most ``most``.
        uniform: ``[rows]``, the draw.
        most: the largest ``top_k`` allowed.
    """
    logits = logits.float()
    best = logits.argmax(dim=-1)
    values, tokens = logits.topk(min(most, logits.shape[-1]), dim=-1)
    weights = ((values - values[:, :1]) / temperature.clamp(min=1e-4)[:, None]).exp()
    ranks = torch.arange(weights.shape[-1], device=weights.device)
    weights = weights * (ranks < top_k[:, None])
    cumulated = weights.cumsum(dim=-1)
    target = uniform[:, None] * cumulated[:, -1:]
    rank = (cumulated <= target).sum(dim=-1, keepdim=True).clamp(max=weights.shape[-1] - 1)
    drawn = tokens.gather(-1, rank)[:, 0]
    return torch.where(temperature > 0, drawn, best)
