"""The figures an engine keeps, as a scraper reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from duplex_server.entrypoints import AsyncOmni, DuplexOmni, EngineHealth

__all__ = ["register_engine", "register_turn_engine"]

_STEP_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56)
_BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64)


def register_engine(omni: DuplexOmni, registry: CollectorRegistry) -> None:
    """Scrape an engine of sessions from now on, and measure its steps."""
    registry.register(_EngineFigures(omni))
    _measure_steps(omni, registry)


def register_turn_engine(omni: AsyncOmni, registry: CollectorRegistry) -> None:
    """Scrape an engine that hosts no sessions from now on, and measure its steps."""
    registry.register(_StageFigures(omni))
    _measure_steps(omni, registry)


def _measure_steps(omni: AsyncOmni, registry: CollectorRegistry) -> None:
    names = {number: stage.id for number, stage in enumerate(omni.pipeline.stages)}
    steps = Histogram(
        "duplex_stage_step_seconds",
        "Time of one step of a stage.",
        ["stage"],
        buckets=_STEP_BUCKETS,
        registry=registry,
    )
    batches = Histogram(
        "duplex_stage_batch_size",
        "Units taken together by one step.",
        ["stage"],
        buckets=_BATCH_BUCKETS,
        registry=registry,
    )

    def measure(stage: int, step_ms: float, batch: int) -> None:
        steps.labels(names[stage]).observe(step_ms / 1000)
        batches.labels(names[stage]).observe(batch)

    omni.figures.on_step = measure


class _StageFigures(Collector):
    def __init__(self, omni: AsyncOmni) -> None:
        self._omni = omni

    def describe(self) -> Iterable[Metric]:
        # Registering must not ask an engine that may not have started yet.
        return ()

    def collect(self) -> Iterable[Metric]:
        health = self._omni.health()
        yield CounterMetricFamily(
            "duplex_units_late", "Units that missed their period.", value=health.units_late
        )
        yield GaugeMetricFamily(
            "duplex_turn_requests",
            "Requests without a session that are under way.",
            value=health.turn_requests,
        )
        yield CounterMetricFamily(
            "duplex_nan_samples",
            "Samples from a model that were no numbers.",
            value=self._omni.figures.nan_samples,
        )
        restarts = CounterMetricFamily(
            "duplex_worker_restarts", "Workers started again.", labels=["stage"]
        )
        for stage in health.stages:
            restarts.add_metric([stage.id], sum(replica.restarts for replica in stage.replicas))
        yield restarts


class _EngineFigures(_StageFigures):
    _omni: DuplexOmni

    def collect(self) -> Iterable[Metric]:
        health = self._omni.health()
        yield from super().collect()
        yield from _sessions(health)
        yield from self._queues()
        yield from _lateness(health)
        yield CounterMetricFamily(
            "duplex_cleanup_retries", "Stage cleanups tried again.", value=health.cleanup_retries
        )

    def _queues(self) -> Iterable[Metric]:
        links = [handle.link for handle in self._omni.sessions.values()]
        yield GaugeMetricFamily(
            "duplex_input_queue_bytes",
            "Input that no model has taken.",
            value=sum(link.room.pending_bytes for link in links),
        )
        yield GaugeMetricFamily(
            "duplex_output_queue_bytes",
            "Events that no reader has taken.",
            value=sum(link.output.pending_bytes for link in links),
        )
        yield GaugeMetricFamily(
            "duplex_mailbox_depth",
            "Commands on their way to the engine.",
            value=sum(link.room.on_the_way for link in links),
        )


def _sessions(health: EngineHealth) -> Iterable[Metric]:
    sessions = GaugeMetricFamily("duplex_sessions", "Sessions that live.", labels=["state"])
    sessions.add_metric(["open"], health.open_sessions)
    sessions.add_metric(["detached"], health.detached_sessions)
    yield sessions
    yield GaugeMetricFamily(
        "duplex_session_slots", "Sessions that may live at once.", value=health.slots_max
    )


def _lateness(health: EngineHealth) -> Iterable[Metric]:
    yield CounterMetricFamily(
        "duplex_units_dropped", "Units dropped for lateness.", value=health.units_dropped
    )
    yield GaugeMetricFamily(
        "duplex_unit_lag_seconds",
        "Age of the oldest unit that a session's model has not taken.",
        value=health.lag_ms / 1000,
    )
