"""What ``/metrics`` tells: Prometheus names, seconds and bytes, never a session as a label."""

from __future__ import annotations

import time
from collections.abc import Callable

from duplex_sdk.protocol.duplex import (
    AppendAudio,
    AudioDelta,
    CancelResponse,
    DuplexEvent,
    ErrorEvent,
    RealtimeCommand,
    ResponseDone,
    SpeechStopped,
)
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from .traces import SessionTrace

__all__ = ["ServingMetrics", "SessionObserver"]

_LATENCY_BUCKETS = (
    0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.7, 1.0, 1.5, 2.5, 5.0, 10.0,
)  # fmt: skip


class ServingMetrics:
    """The figures of one server, in a registry of its own."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.rejections = Counter(
            "duplex_admission_rejections",
            "Sessions that were not opened.",
            ["code"],
            registry=self.registry,
        )
        self.errors = Counter(
            "duplex_errors", "Errors told to clients.", ["code"], registry=self.registry
        )
        self.output_overflows = Counter(
            "duplex_output_overflows",
            "Sessions or responses that ended because nobody read them.",
            registry=self.registry,
        )
        self.resumes = Counter(
            "duplex_resumes",
            "Sessions asked for by a new socket.",
            ["result"],
            registry=self.registry,
        )
        self.journal_overflows = Counter(
            "duplex_journal_overflows",
            "Sessions that can no longer be resumed: too much was not acknowledged.",
            registry=self.registry,
        )
        self.append_to_delta = self._latency(
            "duplex_append_to_first_delta", "From the last append to the first audio of a response."
        )
        self.cancel_to_terminal = self._latency(
            "duplex_cancel_to_terminal", "From response.cancel to the response's end."
        )
        self.speech_to_audio = self._latency(
            "duplex_end_of_speech_to_first_audio",
            "From the detected end of speech to the first audio of a response.",
        )

    def render(self) -> bytes:
        """The page a scraper reads."""
        return generate_latest(self.registry)

    def observer(self, trace: SessionTrace) -> SessionObserver:
        """A fresh observer for one session, which also feeds its trace."""
        return SessionObserver(self, trace)

    def _latency(self, name: str, words: str) -> Histogram:
        return Histogram(f"{name}_seconds", words, buckets=_LATENCY_BUCKETS, registry=self.registry)


class SessionObserver:
    """Measures one session at the edge. Cheap enough for every frame."""

    def __init__(
        self,
        metrics: ServingMetrics,
        trace: SessionTrace,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._trace = trace
        self._clock = clock
        self._appended_at: float | None = None
        self._speech_stopped_at: float | None = None
        self._cancelled_at: float | None = None
        self._speaking: str | None = None

    def command(self, command: RealtimeCommand) -> None:
        """A command is being submitted."""
        if isinstance(command, AppendAudio):
            self._appended_at = self._clock()
        elif isinstance(command, CancelResponse):
            self._cancelled_at = self._clock()

    def event(self, event: DuplexEvent) -> None:
        """An event is being sent."""
        self._trace.event(event)
        if isinstance(event, AudioDelta):
            if event.response_id != self._speaking:
                self._speaking = event.response_id
                self._first_audio()
        elif isinstance(event, SpeechStopped):
            self._speech_stopped_at = self._clock()
        elif isinstance(event, ResponseDone):
            self._ended()
        elif isinstance(event, ErrorEvent):
            self._failed(event.error.code)

    def ended(self) -> None:
        """The session's last event is out."""
        self._trace.end()

    def journal_overflowed(self) -> None:
        """The session can no longer be resumed."""
        self._metrics.journal_overflows.inc()

    def _first_audio(self) -> None:
        now = self._clock()
        if self._appended_at is not None:
            self._metrics.append_to_delta.observe(now - self._appended_at)
        if self._speech_stopped_at is not None:
            self._metrics.speech_to_audio.observe(now - self._speech_stopped_at)
            self._speech_stopped_at = None

    def _ended(self) -> None:
        if self._cancelled_at is not None:
            self._metrics.cancel_to_terminal.observe(self._clock() - self._cancelled_at)
            self._cancelled_at = None

    def _failed(self, code: str) -> None:
        self._metrics.errors.labels(code).inc()
        if code == "output_backpressure":
            self._metrics.output_overflows.inc()
        elif code == "response_cancel_not_active":
            self._cancelled_at = None
