"""The laws of a suite, run without pytest's collection: for the kit's own tests and for tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest

from .breach import LawBrokenError
from .suite import ModelConformance

__all__ = ["LawResult", "law_levels", "run_laws"]


@dataclass(frozen=True, slots=True)
class LawResult:
    """What became of one law.

    Attributes:
        law: its name, such as ``a_turn_is_answered``.
        level: the family it belongs to.
        outcome: what came of it.
        detail: the broken law's message, or why it was skipped or dropped.
    """

    law: str
    level: str
    outcome: Literal["holds", "broken", "skipped", "dropped"]
    detail: str = ""


def law_levels() -> dict[str, str]:
    """All laws by test name, in order, each with the level it belongs to."""
    levels: dict[str, str] = {}
    for family in reversed(ModelConformance.__mro__):
        if not family.__name__.endswith("Laws"):
            continue
        level = family.__name__.removesuffix("Laws").lower()
        levels |= {name: level for name in vars(family) if name.startswith("test_")}
    return levels


def run_laws(suite: type[ModelConformance], *names: str) -> list[LawResult]:
    """Hold a suite's laws against its plugin; all of them, or those named."""
    subject = suite.subject()
    results = []
    for test, level in law_levels().items():
        law = test.removeprefix("test_")
        if names and law not in names:
            continue
        try:
            getattr(suite(), test)(subject)
        except pytest.skip.Exception as skipped:
            results.append(LawResult(law, level, "skipped", str(skipped.msg)))
        except LawBrokenError as broken:
            results.append(LawResult(law, level, "broken", str(broken)))
        except Exception as error:
            results.append(LawResult(law, level, "broken", f"{type(error).__name__}: {error}"))
        else:
            results.append(LawResult(law, level, "holds"))
    subject.unload()
    return results
