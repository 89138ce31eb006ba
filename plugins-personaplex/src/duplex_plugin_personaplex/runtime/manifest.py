"""Which tensors a checkpoint must have, which of them are left unread, and what does not fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .errors import CheckpointError
from .headers import Header
from .sizes import AGENT_CODES, LmSizes

__all__ = ["UNREAD", "Mismatch", "compare", "lm_manifest", "require", "rows_to_read"]

Manifest = Mapping[str, tuple[int, ...]]

UNREAD = (
    # Depth steps 8 to 15 would only predict codes of the caller; the real ones are always known.
    re.compile(r"linears\.(8|9|1[0-5])\.weight"),
    re.compile(r"depformer_in\.(8|9|1[0-5])\.weight"),
    re.compile(r"depformer_emb\.(7|8|9|1[0-4])\.weight"),
    re.compile(r"depformer\.layers\.\d+\.gating\.(8|9|1[0-5])\.linear_(in|out)\.weight"),
)
"""Tensors that may be in a file and are not loaded. Anything else that is not expected is wrong."""

_FUSED = re.compile(r"depformer\.layers\.\d+\.self_attn\.(in_proj_weight|out_proj\.weight)")


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One tensor that is not as expected, and how."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name!r} {self.problem}"


def lm_manifest(sizes: LmSizes) -> dict[str, tuple[int, ...]]:
    """Every tensor of a language model of these sizes, with its shape on disk."""
    dim, depth = sizes.dim, sizes.depth_dim
    steps = range(sizes.depth_steps)
    found: dict[str, tuple[int, ...]] = {
        "text_emb.weight": (sizes.text_card + 1, dim),
        "text_linear.weight": (sizes.text_card, dim),
        "out_norm.alpha": (1, 1, dim),
        "depformer_text_emb.weight": (sizes.text_card + 1, depth),
    }
    found |= {f"emb.{row}.weight": (sizes.card + 1, dim) for row in range(sizes.code_rows)}
    found |= {f"depformer_in.{step}.weight": (depth, dim) for step in steps}
    found |= {f"depformer_emb.{step}.weight": (sizes.card + 1, depth) for step in steps[:-1]}
    found |= {f"linears.{step}.weight": (sizes.card, depth) for step in steps}
    for layer in range(sizes.layers):
        prefix = f"transformer.layers.{layer}."
        found |= _layer(prefix, dim, 1)
        found |= _gate(f"{prefix}gating.", dim, sizes.hidden)
    for layer in range(sizes.depth_layers):
        prefix = f"depformer.layers.{layer}."
        found |= _layer(prefix, depth, sizes.depth_steps)
        for step in steps:
            found |= _gate(f"{prefix}gating.{step}.", depth, sizes.depth_hidden)
    return found


def _layer(prefix: str, dim: int, steps: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}self_attn.in_proj_weight": (steps * 3 * dim, dim),
        f"{prefix}self_attn.out_proj.weight": (steps * dim, dim),
        f"{prefix}norm1.alpha": (1, 1, dim),
        f"{prefix}norm2.alpha": (1, 1, dim),
    }


def _gate(prefix: str, dim: int, hidden: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}linear_in.weight": (2 * hidden, dim),
        f"{prefix}linear_out.weight": (dim, hidden),
    }


def compare(header: Header, manifest: Manifest) -> list[Mismatch]:
    """What of a file does not fit a manifest: missing, of another shape, or not known."""
    wrong = [Mismatch(name, "is missing") for name in manifest if name not in header.tensors]
    for name, entry in header.tensors.items():
        expected = manifest.get(name)
        if expected is None:
            wrong.append(Mismatch(name, "is not known"))
        elif expected != entry.shape:
            wrong.append(Mismatch(name, f"is {entry.shape}, expected {expected}"))
    return wrong


def require(header: Header, manifest: Manifest) -> None:
    """Make sure that a file fits a manifest.

    Raises:
        CheckpointError: it does not; names the first tensors.
    """
    wrong = compare(header, manifest)
    if wrong:
        named = "; ".join(str(mismatch) for mismatch in wrong[:3])
        more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise CheckpointError(
            f"{header.path.name} does not fit: {named}{more}",
            hint="duplex verify-checkpoint personaplex DIR lists everything",
        )


def rows_to_read(name: str, sizes: LmSizes) -> int | None:
    """How many rows of a tensor are loaded: 0 none, None all of them."""
    if any(pattern.fullmatch(name) for pattern in UNREAD):
        return 0
    if not _FUSED.fullmatch(name):
        return None
    width = 3 if name.endswith("in_proj_weight") else 1
    return AGENT_CODES * width * sizes.depth_dim
