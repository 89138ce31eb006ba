"""How a session samples: defaults of the model, and what ``extra_body`` may say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duplex_sdk.plugin import DuplexRuntimeConfigError
from duplex_sdk.stage import Json

__all__ = [
    "SAMPLING_DEFAULTS",
    "SAMPLING_KEYS",
    "TOP_K_AUDIO",
    "TOP_K_TEXT",
    "require_seed",
    "sampling_of",
]

TOP_K_AUDIO = 250
TOP_K_TEXT = 25
SAMPLING_DEFAULTS: Mapping[str, Json] = {
    "temperature": 0.8,
    "top_k": TOP_K_AUDIO,
    "text_temperature": 0.7,
    "text_top_k": TOP_K_TEXT,
    "greedy": False,
}
SAMPLING_KEYS = frozenset(SAMPLING_DEFAULTS)
_SEEDS = 1 << 63


def sampling_of(extra_body: Mapping[str, Json], defaults: Mapping[str, Json]) -> dict[str, Json]:
    """The sampling of a session: the defaults under what its client asks for.

    Raises:
        DuplexRuntimeConfigError: a value that cannot be, with its path.
    """
    checks: dict[str, Callable[[Any], bool]] = {
        "temperature": _is_temperature,
        "text_temperature": _is_temperature,
        "top_k": lambda value: _is_count(value, TOP_K_AUDIO),
        "text_top_k": lambda value: _is_count(value, TOP_K_TEXT),
        "greedy": lambda value: isinstance(value, bool),
    }
    chosen = dict(defaults)
    for key in sorted(SAMPLING_KEYS & set(extra_body)):
        if not checks[key](extra_body[key]):
            raise DuplexRuntimeConfigError(
                "invalid_duplex_runtime_config",
                f"{key} cannot be {extra_body[key]!r}",
                param=f"session.extra_body.{key}",
                hint="temperatures 0 to 2, top_k 1 to 250, text_top_k 1 to 25, greedy a bool",
            )
        chosen[key] = extra_body[key]
    return chosen


def require_seed(extra_body: Mapping[str, Json]) -> None:
    """Make sure that the seed a client asks for is one, if it asks for any.

    Raises:
        DuplexRuntimeConfigError: it is not.
    """
    seed = extra_body.get("seed", 0)
    if type(seed) is not int or not 0 <= seed < _SEEDS:
        raise DuplexRuntimeConfigError(
            "invalid_duplex_runtime_config",
            f"seed cannot be {seed!r}",
            param="session.extra_body.seed",
            hint="a whole number from 0 to 2**63 - 1",
        )


def _is_temperature(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 2


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
