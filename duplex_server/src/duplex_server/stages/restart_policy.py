"""How quickly a replica that failed is started again."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RestartPolicy"]


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Seconds; the first restart comes soon, those of one that keeps failing further apart.

    Attributes:
        pauses_s: before the first, second... restart in a row; the last repeats.
        stable_s: a replica that worked for so long begins a new row when it fails.
    """

    pauses_s: tuple[float, ...] = (0.2, 1.0, 2.0, 5.0, 10.0, 30.0)
    stable_s: float = 10.0

    def pause_s(self, failures: int) -> float:
        """The pause after so many failures in a row before this one."""
        return self.pauses_s[min(failures, len(self.pauses_s) - 1)]
