"""One step of the table of sessions as a law sees it, and the watch that holds the laws."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duplex_sdk.session.session_table import SessionTable, SlotState
from duplex_sdk.session.table_messages import (
    AnswerCaller,
    CleanupTried,
    CloseAsked,
    ControlAsked,
    OpenAsked,
    ResumeAsked,
    SessionEnded,
    StartSession,
)

from .law import Tally, hold, laws_of

if TYPE_CHECKING:
    from duplex_sdk.session.table_messages import TableEffect, TableInput

__all__ = [
    "CloseAnswered",
    "OpenAnswered",
    "ResumeAnswered",
    "TableEnd",
    "TableLife",
    "TableStep",
    "TableWatch",
]

_QUEUED = frozenset({SlotState.OPEN, SlotState.OPEN_DETACHED})


# What laws may ask for besides inputs and effects.


class CloseAnswered:
    """A caller is told what became of a close."""


class OpenAnswered:
    """A caller is told what became of an open."""


class ResumeAnswered:
    """A caller is told what became of a resume."""


_ANSWERED: dict[str, type[Any]] = {
    "close": CloseAnswered,
    "open": OpenAnswered,
    "resume": ResumeAnswered,
}


@dataclass(slots=True)
class TableLife:
    """What has been seen of a table.

    Attributes:
        asked: operations that were not answered yet, by control id.
        queues: of each session the operations that wait for their turn.
        started: sessions that began.
        cleaned: sessions whose stages let go.
        expected: the generation that each resume expected.
        repeated: resumes that were asked again.
        resumed: which resume made which generation of a session.
        generations: the newest that callers were told.
    """

    asked: Counter[str] = field(default_factory=Counter)
    queues: dict[str, list[str]] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    cleaned: set[str] = field(default_factory=set)
    expected: dict[str, int] = field(default_factory=dict)
    repeated: set[str] = field(default_factory=set)
    resumed: dict[tuple[str, int], str] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class TableStep:
    """One call of the table's ``handle``.

    Attributes:
        item: the input.
        asked: the effects.
        table: the table after it.
        life: what was seen before, and that it was asked.
    """

    item: TableInput
    asked: tuple[TableEffect, ...]
    table: SessionTable
    life: TableLife

    def asks(self, kind: type[Any]) -> list[Any]:
        """The effects of one type, in order."""
        return [each for each in self.asked if type(each) is kind]


@dataclass(frozen=True, slots=True)
class TableEnd:
    """The table when everybody has gone."""

    table: SessionTable
    life: TableLife


class TableWatch:
    """Holds the laws against every step of a table.

    Args:
        table: it.
        tally: where it is counted how often each law had something to look at.
    """

    def __init__(self, table: SessionTable, tally: Tally | None = None) -> None:
        self._table = table
        self._tally: Tally = Counter() if tally is None else tally
        self._laws = laws_of("table")
        self._life = TableLife()
        self._item: TableInput | None = None

    def before(self, item: TableInput) -> None:
        """The table is about to take an input."""
        self._item, life = item, self._life
        if isinstance(item, ControlAsked):
            life.asked[item.control_id] += 1
            if isinstance(item, ResumeAsked):
                if item.control_id in life.expected:
                    life.repeated.add(item.control_id)
                life.expected[item.control_id] = item.expected_generation
            state = self._table.state(item.session_id)
            waits = state is SlotState.ADMITTING and not isinstance(item, CloseAsked | OpenAsked)
            if state in _QUEUED or waits:
                life.queues.setdefault(item.session_id, []).append(item.control_id)
        elif (isinstance(item, SessionEnded) and item.released) or (
            isinstance(item, CleanupTried) and item.ok
        ):
            life.cleaned.add(item.session_id)

    def after(self, asked: tuple[TableEffect, ...]) -> None:
        """The table took it.

        Raises:
            AssertionError: a law is broken; the message names it.
        """
        assert self._item is not None
        kinds: list[type[Any]] = [type(self._item)]
        for effect in asked:
            kinds.append(type(effect))
            if type(effect) is AnswerCaller:
                kinds.append(_ANSWERED.get(effect.operation, AnswerCaller))
        step = TableStep(self._item, asked, self._table, self._life)
        hold(self._laws[tuple(kinds)], step, self._tally)
        for effect in asked:
            if type(effect) is StartSession:
                self._life.started.add(effect.session_id)

    def at_the_end(self) -> None:
        """Nobody is there any more.

        Raises:
            AssertionError: something was left.
        """
        end = TableEnd(self._table, self._life)
        hold(laws_of("end")[()], end, self._tally)
