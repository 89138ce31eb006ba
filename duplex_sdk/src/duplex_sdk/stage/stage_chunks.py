"""Handing on in chunks: for a stage that takes so many tokens or frames of codes at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from .stage_input import StageInputContext
from .types import Array, Json, StageOutput, StagePrompt

__all__ = ["chunks"]

T = TypeVar("T", bytes, tuple[int, ...])


def chunks(
    count: int, *, array: str | None = None
) -> Callable[[StageOutput, StageInputContext], Sequence[StagePrompt]]:
    """A ``stage_input`` whose prompts hold ``count`` each, the last one of a turn what is left.

    Text and ``data`` travel with the next prompt made. Audio, and arrays that are not counted, are
    not handed on.

    Args:
        count: tokens or rows per prompt.
        array: name of the array whose rows are counted, such as frames of codes. None: tokens
            are.

    Raises:
        ValueError: ``count`` is less than one.
    """
    if count < 1:
        raise ValueError("a chunk holds one at least")

    def stage_input(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
        memo, ends = context.memo, output.end_of_turn
        text: str = memo.pop("text", "") + (output.text or "")
        data: dict[str, Json] = {**memo.pop("data", {}), **output.data}
        prompts = (
            _of_tokens(output, memo, count)
            if array is None
            else _of_rows(output, memo, count, array)
        )
        if ends and not prompts:
            prompts = [StagePrompt(kind="stage")]
        if not prompts:
            memo.update(text=text, data=data)
            return ()
        prompts[0] = msgspec.structs.replace(prompts[0], text=text or None, data=data)
        prompts[-1] = msgspec.structs.replace(prompts[-1], final=ends)
        return prompts

    return stage_input


def _of_tokens(output: StageOutput, memo: dict[str, Any], count: int) -> list[StagePrompt]:
    held: tuple[int, ...] = memo.pop("tokens", ()) + tuple(output.token_ids)
    pieces, memo["tokens"] = _cut(held, count, everything=output.end_of_turn)
    return [StagePrompt(kind="stage", token_ids=piece) for piece in pieces]


def _of_rows(output: StageOutput, memo: dict[str, Any], count: int, name: str) -> list[StagePrompt]:
    """The rows' type and shape are those of the first array of the turn.

    Raises:
        ValueError: those of a later one differ, so that the rows don't fit together.
    """
    fresh = output.arrays.get(name)
    kind: tuple[str, tuple[int, ...]] | None = memo.get("kind")
    if fresh is not None:
        of_fresh = (fresh.dtype, fresh.shape[1:])
        if kind is not None and kind != of_fresh:
            raise ValueError(f"rows of {name!r} were {kind} and are {of_fresh} now")
        kind = memo["kind"] = of_fresh
        rows = math.prod(fresh.shape[:1])
        memo["row_bytes"] = len(fresh.data) // rows if rows else memo.get("row_bytes", 0)
    held: bytes = memo.pop("rows", b"") + (b"" if fresh is None else fresh.data)
    row_bytes: int = memo.get("row_bytes", 0)
    pieces, memo["rows"] = _cut(held, count * row_bytes, everything=output.end_of_turn)
    if output.end_of_turn:
        memo.pop("kind", None)
    if kind is None:
        return []
    dtype, row = kind
    return [
        StagePrompt(
            kind="stage", arrays={name: Array(piece, dtype, (len(piece) // row_bytes, *row))}
        )
        for piece in pieces
    ]


def _cut(held: T, size: int, *, everything: bool) -> tuple[list[T], T]:
    """Pieces of one size, and what is left; ``everything``: that is the last piece."""
    if not held:
        return [], held
    end = len(held) if everything else len(held) - len(held) % size
    return [held[start : min(start + size, end)] for start in range(0, end, size)], held[end:]
