"""Which laws are called for a subject, and what a law may ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from duplex_sdk.testing.invariants.law import LAWS, LawBrokenError, hold, law, laws_of


class Rain:
    """Something that may occur."""


class Wind:
    """Something else."""


@pytest.fixture
def called() -> Iterator[list[str]]:
    """Two laws more, of numbers that nobody has; the names of those that were called."""
    before, names = list(LAWS), []

    def it_rains(subject: Any) -> bool:
        """Looks at rain."""
        names.append("it_rains")
        assert subject != "flood", "too much"
        return True

    def it_storms(subject: Any) -> bool:
        """Looks at wind, and sees nothing."""
        names.append("it_storms")
        return False

    law(901, "line", Rain)(it_rains)
    law(902, "line", Wind, Rain)(it_storms)
    yield names
    LAWS[:] = before
    laws_of("line").forget()


def test_a_law_is_called_where_one_of_its_types_occurs_in_whatever_order(called: list[str]) -> None:
    table, tally = laws_of("line"), Counter[int]()
    for kinds in ((Rain, Wind), (Wind, Rain), (Wind,), (int,), (Rain,), (Wind, Rain)):
        hold(table[kinds], "drizzle", tally)
    both, storm = ["it_rains", "it_storms"], ["it_storms"]
    assert called == [*both, *both, *storm, *both, *both]
    assert tally == {901: 4}, "what saw nothing is not counted"


def test_a_law_that_joins_when_others_were_called_already_is_called_too() -> None:
    before, table = list(LAWS), laws_of("line")
    assert table[Rain,] == ()
    try:
        law(903, "line", Rain)(lambda subject: True)
        assert [each.number for each in table[Rain,]] == [903]
    finally:
        LAWS[:] = before
        table.forget()
    assert table[Rain,] == ()


def test_what_a_law_sees_is_told_with_its_number(called: list[str]) -> None:
    with pytest.raises(LawBrokenError, match="901 it_rains: too much"):
        hold(laws_of("line")[Rain,], "flood", Counter())
    assert called == ["it_rains"], "nothing is asked of what is broken already"
