"""How a law says that it is broken, or that it has nothing to say about this plugin."""

from __future__ import annotations

from typing import NoReturn

import pytest

__all__ = ["DoesNotApply", "LawBrokenError", "breach", "does_not_apply", "require"]


class LawBrokenError(AssertionError):
    """A law is broken: what was seen, and what the author should do about it."""

    def __init__(self, problem: str, advice: str) -> None:
        super().__init__(f"{problem}\n\nWhat to do: {advice}")
        self.problem = problem
        self.advice = advice


class DoesNotApply(str):
    """Why a law has nothing to say about this plugin: it tells a law's skip from all others."""


def breach(problem: str, advice: str) -> NoReturn:
    """The law is broken.

    Raises:
        LawBrokenError: always.
    """
    raise LawBrokenError(problem, advice)


def require(condition: object, problem: str, advice: str) -> None:
    """The law holds only if ``condition`` does.

    Raises:
        LawBrokenError: it does not.
    """
    if not condition:
        raise LawBrokenError(problem, advice)


def does_not_apply(reason: str) -> NoReturn:
    """The law is about something this plugin does not claim; pytest shows the reason."""
    pytest.skip(DoesNotApply(reason))
