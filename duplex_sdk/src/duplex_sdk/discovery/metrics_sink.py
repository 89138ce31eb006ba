"""Where a server's figures go besides ``/metrics``: the role, and what it is handed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Figure", "MetricsSink"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One value at one moment.

    Attributes:
        name: as ``/metrics`` writes it, such as ``duplex_sessions``; a histogram gives one figure
            per bucket, one ending in ``_sum`` and one ending in ``_count``.
        kind: what it belongs to.
        value: the value; seconds and bytes where the name says so. Counters only grow.
        labels: that tell it from its siblings; a bucket's upper bound is ``le``.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    value: float
    labels: Mapping[str, str]


class MetricsSink(ABC):
    """Takes a server's figures to somewhere else, on a thread of its own.

    It may take its time: nobody waits for it. What it raises is logged once, until it works again;
    the figures of that moment are lost, and it is called again with the next ones.

    Attributes:
        interval_s: seconds between two calls, at least 1.
    """

    interval_s: float = 10.0

    @abstractmethod
    def take(self, figures: Sequence[Figure]) -> None:
        """All figures of the server at one moment. The last call is made when the server ends."""

    def close(self) -> None:  # noqa: B027 - there may be nothing to close
        """The server ends; nothing is handed over after this. Called on the same thread."""
