"""The answer of a command that checks something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

__all__ = ["Check", "FigureRow", "Report"]

FigureRow: TypeAlias = Mapping[str, str | int | float | bool]
"""Measured figures by name, the unit in the name: ``p50_ms``."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what was looked at.
        ok: whether it is sound.
        detail: what was found, in a few words.
        hint: what mends it; None when nothing is to be done or known.
    """

    name: str
    ok: bool
    detail: str = ""
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Several checks of one subject.

    Attributes:
        subject: what was looked at.
        checks: what came of it.
        rows: figures, shown as a table; all rows have the same names in the same order.
    """

    subject: str
    checks: tuple[Check, ...]
    rows: tuple[FigureRow, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all is sound."""
        return all(check.ok for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "subject": self.subject,
            "checks": [asdict(check) for check in self.checks],
            "rows": [dict(row) for row in self.rows],
            "ok": self.ok,
        }
