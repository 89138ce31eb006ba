"""A law: one numbered sentence of what must hold, and the function that looks whether it does.

Laws register themselves with ``law``. Each looks at one kind of subject, and only at subjects in
which one of its types occurs; it answers whether there was anything to look at, so that a run can
tell how often each was put to the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

__all__ = [
    "LAWS",
    "Law",
    "LawBrokenError",
    "Tally",
    "Where",
    "hold",
    "law",
    "laws_for",
]

Where = Literal["step", "told", "buffer", "queue", "line", "rest", "table", "end"]
"""What a law looks at.

* ``step``: one call of a session's ``handle`` (``Step``),
* ``told``: one event of a response (``Told``),
* ``buffer``: one change of the plugin's buffer (``BufferChange``),
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
        return check

    return add


_FOUND: dict[tuple[Any, ...], tuple[Law, ...]] = {}
_MOST_FOUND = 100_000


def laws_for(where: Where, *kinds: type[Any]) -> tuple[Law, ...]:
    """The laws that look at a subject in which these types occur, in whatever order."""
    # By the types as they come: to make a set of them takes as long as some laws do to look.
    key = (where, *kinds)
    laws = _FOUND.get(key)
    if laws is None:
        if len(_FOUND) >= _MOST_FOUND:
            _FOUND.clear()
        laws = _FOUND[key] = _laws_for(where, frozenset(kinds))
    return laws


@cache
def _laws_for(where: Where, kinds: frozenset[type[Any]]) -> tuple[Law, ...]:
    return tuple(
        each for each in LAWS if each.where == where and (not each.when or each.when & kinds)
    )


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
