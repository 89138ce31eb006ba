"""Installed metrics sinks: each on a thread of its own, handed the figures of ``/metrics``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, cast

from duplex_sdk.discovery import Figure, MetricsSink
from prometheus_client import CollectorRegistry

from .foreign_thread import ForeignThread, end_all

__all__ = ["MetricsSinkThreads", "figures_of"]

_log = logging.getLogger(__name__)
_KINDS = ("counter", "gauge", "histogram")


def figures_of(registry: CollectorRegistry) -> tuple[Figure, ...]:
    """What a scraper would read now; from any thread."""
    return tuple(
        Figure(
            sample.name,
            cast("Literal['counter', 'gauge', 'histogram']", metric.type),
            sample.value,
            dict(sample.labels),
        )
        for metric in registry.collect()
        if metric.type in _KINDS
        for sample in metric.samples
        # When a series began is the library's own affair.
        if not sample.name.endswith("_created")
    )


class MetricsSinkThreads:
    """All metrics sinks of a server, at work from now on.

    Args:
        sinks: what installed packages offered.
        figures: the figures of this moment; called on the sinks' threads.
    """

    def __init__(
        self, sinks: Iterable[MetricsSink], figures: Callable[[], Sequence[Figure]]
    ) -> None:
        self._threads = tuple(_SinkThread(sink, figures) for sink in sinks)

    def close(self, timeout_s: float) -> None:
        """Hand over the last figures, and end. Blocks.

        Args:
            timeout_s: longest wait for all together; a thread that goes on is left alone.
        """
        end_all(self._threads, timeout_s)


class _SinkThread(ForeignThread):
    def __init__(self, sink: MetricsSink, figures: Callable[[], Sequence[Figure]]) -> None:
        super().__init__(f"metrics sink {type(sink).__name__}")
        self._sink = sink
        self._figures = figures
        self._works = True
        self.start()

    def _run(self) -> None:
        while not self.finishing.wait(self._sink.interval_s):
            self._hand_over()
        self._hand_over()
        try:
            self._sink.close()
        except (Exception, SystemExit):
            _log.exception("%s failed to close", self._name)

    def _hand_over(self) -> None:
        try:
            self._sink.take(self._figures())
        except (Exception, SystemExit):  # the place it sends to may be away for a while
            if self._works:
                _log.exception("%s failed; it is called again", self._name)
            self._works = False
        else:
            if not self._works:
                _log.info("%s works again", self._name)
            self._works = True
