"""What a step brings beyond the types of its input and effects, as types that laws can ask for.

Most outcomes are no failures, most outputs are neither late nor of an old epoch. Laws that look at
such alone are called for such alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duplex_sdk.session import effects, inputs

if TYPE_CHECKING:
    from types import ModuleType

    from .snapshot import Snapshot

__all__ = [
    "OUTCOMES",
    "WORK",
    "CommitInLine",
    "Failed",
    "OfATurnThatIsOver",
    "OfAnotherEpoch",
    "OutputFailed",
    "OutputOnItsWay",
    "QuietUnit",
    "signs_of_effect",
    "signs_of_item",
]


class CommitInLine:
    """A command came while a commit waited."""


class Failed:
    """Work that the session asked for failed."""


class OfAnotherEpoch:
    """A stage said something of an epoch that is not the session's."""


class OfATurnThatIsOver:
    """A stage said something of a turn before the session's."""


class OutputFailed:
    """A stage said that it cannot."""


class OutputOnItsWay:
    """A stage that is not the last one said something."""


class QuietUnit:
    """The plugin is asked for a unit of which it is known that nobody speaks in it."""


def _with_op(module: ModuleType) -> frozenset[type[Any]]:
    kinds = [getattr(module, name) for name in module.__all__]
    return frozenset(each for each in kinds if "op" in getattr(each, "__struct_fields__", ()))


OUTCOMES = _with_op(inputs)
"""Inputs that report how an effect went."""

WORK = _with_op(effects)
"""Effects that take time."""

_OF_OUTPUTS = inputs.StageOutputReceived


def signs_of_item(item: Any, before: Snapshot, kinds: list[type[Any]]) -> None:
    """Add to ``kinds`` what is special about an input."""
    kind = type(item)
    if kind is _OF_OUTPUTS:
        output = item.output
        if output.epoch != before.epoch:
            kinds.append(OfAnotherEpoch)
        if output.turn_id < before.turn_id:
            kinds.append(OfATurnThatIsOver)
        if output.error is not None:
            kinds.append(OutputFailed)
        if not item.is_last:
            kinds.append(OutputOnItsWay)
    elif kind in OUTCOMES:
        if item.fault is not None:
            kinds.append(Failed)
    elif before.commits and kind is inputs.CommandReceived:
        kinds.append(CommitInLine)


def signs_of_effect(effect: effects.PlanAppend, kinds: list[type[Any]]) -> None:
    """Add to ``kinds`` what is special about a unit that is planned."""
    if effect.request.unit.is_speech is False:
        kinds.append(QuietUnit)
