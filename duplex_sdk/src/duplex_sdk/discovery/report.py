"""The answer of a command that checks something."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Check", "Report"]


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
    """Several checks of one subject."""

    subject: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether all is sound."""
        return all(check.ok for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {**asdict(self), "checks": [asdict(check) for check in self.checks], "ok": self.ok}
