"""The report card: how a plugin stands with each law, printed and as JSON for a badge."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import Any, Literal

import pytest

__all__ = ["Grade", "ReportCards"]

NOT_APPLYING = "duplex-law-does-not-apply"
"""The property of a report whose law skipped itself."""

Outcome = Literal["holds", "broken", "skipped", "dropped"]

_LOOKS: dict[Outcome, tuple[str, str]] = {
    "holds": ("✔", "green"),
    "broken": ("✘", "bold red"),
    "skipped": ("-", "dim"),
    "dropped": ("!", "yellow"),
}


_NARROWEST, _USUAL = 80, 120
"""Columns: with fewer every reason breaks; more than usual are used where there are more."""


@dataclass(frozen=True, slots=True)
class Grade:
    """How a plugin stands with one law.

    Attributes:
        suite: the plugin's name, and the test class in brackets.
        level: the law's family.
        law: its name.
        outcome: ``dropped``: broken and known, by an xfail with a reason.
        reason: why it was skipped or dropped, or the first line of what broke it.
    """

    suite: str
    level: str
    law: str
    outcome: Outcome
    reason: str = ""


class ReportCards:
    """A pytest plugin that keeps the grades of a run and shows them at its end."""

    def __init__(self) -> None:
        self._grades: dict[tuple[str, str], Grade] = {}
        self._suites: dict[str, None] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the grade of a law; reports of other tests carry none."""
        properties = dict(report.user_properties)
        told = properties.get("duplex-law")
        if told is None or (report.when != "call" and report.outcome == "passed"):
            return
        suite, level, law = json.loads(str(told))
        excused = getattr(report, "wasxfail", None) is not None
        if report.outcome == "skipped" and not excused and not properties.get(NOT_APPLYING):
            # Skipped by somebody else than the law itself: it was not run, and nothing is known.
            self._suites.setdefault(suite)
            return
        self.keep(Grade(suite, level, law, *_outcome(report)))

    def keep(self, grade: Grade) -> None:
        """Keep a grade; what is broken stays so."""
        self._suites.setdefault(grade.suite)
        before = self._grades.get((grade.suite, grade.law))
        if before is None or before.outcome != "broken":
            self._grades[grade.suite, grade.law] = grade

    def pytest_terminal_summary(
        self, terminalreporter: Any, exitstatus: int, config: pytest.Config
    ) -> None:
        """Print a card for each plugin, and write the JSON where it is wanted."""
        for suite in self.suites:
            terminalreporter.section(f"conformance of {suite}", sep="-")
            colour = terminalreporter.hasmarkup
            terminalreporter.write(_shown(self.card(suite), self.verdict(suite), colour))
        path = config.getoption("--duplex-report")
        if path is not None:
            cards = [self.document(suite) for suite in self.suites]
            path.write_text(json.dumps({"suites": cards}, indent=2) + "\n", encoding="utf-8")

    @property
    def suites(self) -> list[str]:
        """The suites that were run, in order."""
        return list(self._suites)

    def card(self, suite: str) -> list[Grade]:
        """The grades of one suite, in the order of the laws, whoever ran them first."""
        from duplex_sdk.testing.conformance.run import law_levels

        order = {test.removeprefix("test_"): place for place, test in enumerate(law_levels())}
        mine = [grade for grade in self._grades.values() if grade.suite == suite]
        return sorted(mine, key=lambda grade: order.get(grade.law, len(order)))

    def verdict(self, suite: str) -> str:
        """How it went, in a line."""
        document = self.document(suite)
        ends = {
            True: "it conforms to plugin API",
            False: "it does not conform to plugin API",
            None: "run all of them to know whether it conforms to plugin API",
        }
        return (
            f"{document['badge']['message']}, {document['counts']['skipped']} do not apply:"
            f" {ends[document['conforms']]} {document['api']}"
        )

    def document(self, suite: str) -> dict[str, Any]:
        """The grades of one suite as JSON values.

        ``badge`` is what shields.io reads. ``conforms`` is None when nothing is broken and not
        every law was run.
        """
        from duplex_sdk.plugin import API_VERSION
        from duplex_sdk.testing.conformance.run import law_levels

        card = self.card(suite)
        counts = {name: sum(grade.outcome == name for grade in card) for name in _LOOKS}
        left_out = len(law_levels()) - len(card)
        conforms = False if _broken(card) else None if left_out else True
        held = f"{counts['holds']} of {counts['holds'] + len(_broken(card))} laws hold"
        return {
            "suite": suite,
            "api": API_VERSION,
            "conforms": conforms,
            "counts": {**counts, "not run": left_out},
            "laws": [
                {
                    "level": grade.level,
                    "law": grade.law,
                    "outcome": grade.outcome,
                    "reason": grade.reason,
                }
                for grade in card
            ],
            "badge": {
                "schemaVersion": 1,
                "label": f"duplex {API_VERSION}",
                "message": f"{held}, {left_out} not run" if left_out else held,
                "color": {True: "brightgreen", False: "red", None: "lightgrey"}[conforms],
            },
        }


def _broken(card: list[Grade]) -> list[Grade]:
    return [grade for grade in card if grade.outcome in ("broken", "dropped")]


def _outcome(report: pytest.TestReport) -> tuple[Outcome, str]:
    excuse = getattr(report, "wasxfail", None)
    if excuse is not None and report.outcome == "skipped":
        return "dropped", str(excuse).removeprefix("reason: ")
    if report.outcome == "passed":
        return "holds", ""
    if report.outcome == "skipped":
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        return "skipped", text.removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message if crash is not None else str(report.longrepr)
    return "broken", message.splitlines()[0].rpartition("LawBrokenError: ")[2]


def _shown(card: list[Grade], verdict: str, colour: bool) -> str:
    """A table and what it comes to, as text as wide as the terminal, in colour where it has any."""
    import io

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    for column in ("mark", "level", "law", "reason"):
        table.add_column(column, no_wrap=column != "reason")
    level = ""
    for grade in card:
        mark, style = _LOOKS[grade.outcome]
        table.add_row(
            Text(mark, style),
            "" if grade.level == level else grade.level,
            Text(grade.law.replace("_", " "), style if grade.outcome != "holds" else ""),
            Text(grade.reason, "dim"),
        )
        level = grade.level
    out = io.StringIO()
    width = max(_NARROWEST, shutil.get_terminal_size((_USUAL, 24)).columns)
    console = Console(file=out, force_terminal=colour, no_color=not colour, width=width)
    console.print(table)
    console.print(Text(verdict, "bold red" if _broken(card) else "bold"))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
