"""Things that can happen in a simulation: each has a name, a weight and the values it may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .world import World

__all__ = ["ACTIONS", "Action", "ActionKind", "action"]

Do = Callable[..., None]


@dataclass(frozen=True)
class ActionKind:
    """One thing that can happen.

    Attributes:
        name: unique.
        do: does it to a world, as somebody, with one value for each option.
        weight: how often it is drawn, beside the others.
        options: the values to draw from.
    """

    name: str
    do: Do
    weight: int
    options: dict[str, tuple[Any, ...]]


def _shown(value: object) -> str:
    return value.__name__ if isinstance(value, type) else repr(value)


ACTIONS: dict[str, ActionKind] = {}

_DRAWN: list[ActionKind] = []
"""Each as often as its weight says."""


@dataclass(frozen=True)
class Action:
    """Something that happens: ``who`` is the number of a client."""

    name: str
    who: int = 0
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        """As a line of a script."""
        options = ", ".join(f"{name}={_shown(value)}" for name, value in self.options)
        return f"client {self.who}: {self.name}({options})"

    def do(self, world: World) -> None:
        """Let it happen."""
        ACTIONS[self.name].do(world, self.who, **dict(self.options))

    @classmethod
    def draw(cls, random: Random, clients: int) -> Action:
        """Any of them."""
        kind = _DRAWN[random.randrange(len(_DRAWN))]
        options = tuple(
            (name, values[random.randrange(len(values))]) for name, values in kind.options.items()
        )
        return cls(kind.name, random.randrange(clients), options)


def action(weight: int = 1, **options: tuple[Any, ...]) -> Callable[[Do], Do]:
    """Add a function to what can happen, under its name."""

    def add(do: Do) -> Do:
        name = do.__name__.strip("_")
        assert name not in ACTIONS, f"two actions are called {name}"
        ACTIONS[name] = kind = ActionKind(name, do, weight, options)
        _DRAWN.extend([kind] * weight)
        return do

    return add
