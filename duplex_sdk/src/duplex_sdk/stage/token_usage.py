"""What an answer cost in tokens, as stages tell it in the ``data`` of their outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .types import Json, StageOutput

__all__ = ["TokenUsage", "usage_of"]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one or several pieces of work; they add up.

    Attributes:
        input_tokens: given to the model.
        output_tokens: made by it.
    """

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: TokenUsage) -> TokenUsage:
        """Both together."""
        return TokenUsage(
            self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens
        )

    @property
    def data(self) -> dict[str, Json]:
        """What a stage puts into the ``data`` of an output to tell it."""
        told = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        return {"usage": told}

    def as_realtime(self) -> dict[str, int]:
        """The ``usage`` of a response on the wire."""
        return {
            "total_tokens": self.input_tokens + self.output_tokens,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }


def usage_of(output: StageOutput) -> TokenUsage | None:
    """What an output says that it cost: ``data["usage"]``, with the fields of ``TokenUsage``.

    Returns:
        None when it says nothing that can be counted.
    """
    said = output.data.get("usage") if output.data else None
    if not isinstance(said, Mapping):
        return None
    taken, made = said.get("input_tokens", 0), said.get("output_tokens", 0)
    if not (_is_count(taken) and _is_count(made)):
        return None
    return TokenUsage(taken, made)


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
