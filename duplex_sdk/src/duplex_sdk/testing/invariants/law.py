"""A law: one numbered sentence of what must hold, and the function that looks whether it does.

Laws register themselves with ``law``. Each looks at one kind of subject, and only at subjects in
which one of its types occurs; it answers whether there was anything to look at, so that a run can
tell how often each was put to the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

__all__ = [
    "LAWS",
    "Law",
    "LawBrokenError",
    "LawTable",
    "Tally",
    "Where",
    "hold",
    "law",
    "laws_of",
]

Where = Literal["step", "told", "buffer", "queue", "line", "rest", "table", "end"]
"""What a law looks at.

* ``step``: one call of a session's ``handle`` (``Step``),
* ``told``: one event of a response (``Told``),
* ``buffer``: one change of the plugin's buffer but additions (``BufferChange``),
* ``queue``: one call of its output queue (``Put``, ``Got``, ``Invalidated``, ``ReadAll``),
* ``line``: what goes over the line to its client (``Sent``, ``Resumed``),
* ``rest``: a session whose client fell silent (``Rest``),
* ``table``: one call of the table's ``handle`` (``TableStep``),
* ``end``: the table when everybody has gone (``TableEnd``).
"""

Tally = Counter[int]
"""How often each law, by its number, had something to look at."""

Check = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Law:
    """One check.

    Attributes:
        number: of the sentence it holds; above 120: one of ours.
        name: its name.
        where: what it looks at.
        check: looks; True: there was something to look at. Raises ``AssertionError``.
        when: types one of which must occur, none for any subject.
    """

    number: int
    name: str
    where: Where
    check: Check
    when: frozenset[type[Any]]

    @property
    def title(self) -> str:
        """Number and name."""
        return f"{self.number} {self.name}"


LAWS: list[Law] = []
"""All of them, by number."""


class LawBrokenError(AssertionError):
    """What was seen does not agree with a law."""

    def __init__(self, broken: Law, seen: str) -> None:
        super().__init__(f"{broken.number} {broken.name}: {seen}")
        self.law = broken
        self.seen = seen


def law(number: int, where: Where, *when: type[Any]) -> Callable[[Check], Check]:
    """Add a function to the laws under its name.

    Args:
        number: of the sentence; several functions may hold parts of one.
        where: what it looks at.
        when: looks only where one of these types occurs: inputs, effects, events or commands.
    """

    def add(check: Check) -> Check:
        name: str = check.__name__
        assert all(known.name != name for known in LAWS), f"two laws are called {name}"
        LAWS.append(Law(number, name, where, check, frozenset(when)))
        LAWS.sort(key=lambda each: each.number)
        laws_of(where).forget()
        return check

    return add


_MOST_FOUND = 100_000
"""Combinations of types that a table remembers before it begins anew."""


class LawTable(dict[tuple[type[Any], ...], tuple[Law, ...]]):
    """The laws that look at one kind of subject, by the types that occur in it as they come.

    ``table[types]`` is worked out once for each combination; from then on it is one look into a
    dict. To make a set of the types each time would take as long as some laws do to look.
    """

    def __init__(self, where: Where) -> None:
        super().__init__()
        self._where = where
        self._by_set: dict[frozenset[type[Any]], tuple[Law, ...]] = {}

    def __missing__(self, kinds: tuple[type[Any], ...]) -> tuple[Law, ...]:
        if len(self) >= _MOST_FOUND:
            self.clear()
        together = frozenset(kinds)
        laws = self._by_set.get(together)
        if laws is None:
            laws = self._by_set[together] = tuple(
                each
                for each in LAWS
                if each.where == self._where and (not each.when or each.when & together)
            )
        self[kinds] = laws
        return laws

    def forget(self) -> None:
        """There is another law."""
        self.clear()
        self._by_set.clear()


_TABLES: dict[Where, LawTable] = {}


def laws_of(where: Where) -> LawTable:
    """The table of the laws that look at one kind of subject."""
    if where not in _TABLES:
        _TABLES[where] = LawTable(where)
    return _TABLES[where]


def hold(laws: tuple[Law, ...], subject: object, tally: Tally) -> None:
    """Hold laws against one subject.

    Raises:
        LawBrokenError: the first that is broken.
    """
    each: Law | None = None
    try:
        for each in laws:
            if each.check(subject):
                tally[each.number] += 1
    except AssertionError as error:
        assert each is not None
        raise LawBrokenError(each, str(error)) from error
