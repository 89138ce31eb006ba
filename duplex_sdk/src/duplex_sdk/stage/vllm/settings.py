"""What a deployment may say of a vllm stage beside vLLM's own engine arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from duplex_sdk.stage.model import StageLoadError
from duplex_sdk.stage.types import Json

__all__ = ["AtLimit", "BackendSettings"]

AtLimit = Literal["end", "roll_over"]


@dataclass(frozen=True, slots=True)
class BackendSettings:
    """The stage's ``options``.

    Attributes:
        at_limit: what becomes of a session whose next unit would pass the model's longest context:
            ``end`` it, or ``roll_over``: drop its oldest units (of a conversation its oldest
            messages) and go on.
        keep_units: units at the beginning that rolling over does not drop.
        keep_last_token: the last token of an answer stays in the context. vLLM itself drops it.
        early_input: units come before their turn is certain, so that an interruption discards
            those of the unfinished turn.
        placeholder_token_id: the token that stands for an embedding in the model's input.
        embeddings_as: the modality under which embeddings are given: ``audio`` goes through the
            model's own ``embed_multimodal``, ``prompt_embeds`` past it.
        chat_template_kwargs: variables for the model's chat template.
    """

    at_limit: AtLimit = "end"
    keep_units: int = 1
    keep_last_token: bool = True
    early_input: bool = False
    placeholder_token_id: int | None = None
    embeddings_as: Literal["audio", "prompt_embeds"] = "audio"
    chat_template_kwargs: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, Json]) -> BackendSettings:
        """Read the options of a stage.

        Raises:
            StageLoadError: naming the option that cannot be.
        """
        known = {each.name for each in fields(cls)}
        unknown = sorted(options.keys() - known)
        if unknown:
            raise StageLoadError(
                f"a vllm stage has no option {unknown[0]!r}", f"it has: {', '.join(sorted(known))}"
            )
        checks: dict[str, Any] = {
            "at_limit": lambda value: value in get_args(AtLimit),
            "keep_units": lambda value: _is_count(value),
            "keep_last_token": lambda value: isinstance(value, bool),
            "early_input": lambda value: isinstance(value, bool),
            "placeholder_token_id": lambda value: value is None or _is_count(value),
            "embeddings_as": lambda value: value in ("audio", "prompt_embeds"),
            "chat_template_kwargs": lambda value: isinstance(value, Mapping),
        }
        for name, value in options.items():
            if not checks[name](value):
                raise StageLoadError(f"option {name!r} of a vllm stage cannot be {value!r}")
        return cls(**options)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
