"""OpenTelemetry spans of sessions, responses and units, where the ``otel`` extra is installed.

Without it, or without a configured tracer provider, nothing is recorded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    ErrorEvent,
    ResponseCreated,
    ResponseDone,
    SessionClosed,
)

from duplex_server.runtime.unit_watch import UnitTiming

__all__ = ["SessionTrace", "session_trace"]

_NAME = "duplex_server"


class SessionTrace(ABC):
    """Follows one session by its events.

    Attributes:
        wants_units: ``unit`` is to be called.
    """

    wants_units = False

    @abstractmethod
    def event(self, event: DuplexEvent) -> None:
        """The session told something."""

    def unit(self, timing: UnitTiming) -> None:
        """A unit of its input was taken, or was not; called on the engine's thread."""
        return None

    @abstractmethod
    def end(self) -> None:
        """Nothing more comes; again changes nothing."""


def session_trace(session_id: str, profile: str) -> SessionTrace:
    """A trace that begins now.

    Args:
        session_id: of the session.
        profile: name of the profile it is spoken to in.
    """
    api = _api()
    return _Untraced() if api is None else _Traced(api, session_id, profile)


@cache
def _api() -> Any:
    """The module ``opentelemetry.trace``, None where it is not installed."""
    if find_spec("opentelemetry") is None:
        return None
    return import_module("opentelemetry.trace")


class _Untraced(SessionTrace):
    def event(self, event: DuplexEvent) -> None:
        pass

    def end(self) -> None:
        pass


class _Traced(SessionTrace):
    """One span for the session, and below it one for each response and each unit of input."""

    wants_units = True

    def __init__(self, api: Any, session_id: str, profile: str) -> None:
        self._api = api
        self._tracer = api.get_tracer(_NAME)
        self._session = self._tracer.start_span(
            "duplex.session",
            attributes={"duplex.session_id": session_id, "duplex.profile": profile},
        )
        self._below = api.set_span_in_context(self._session)
        self._responses: dict[str, Any] = {}
        self._speaking: set[str] = set()
        self._ended = False

    def event(self, event: DuplexEvent) -> None:
        if isinstance(event, AudioDelta):
            self._audio(event.response_id)
        elif isinstance(event, ResponseCreated):
            self._responses[event.response_id] = self._tracer.start_span(
                "duplex.response",
                context=self._below,
                attributes={"duplex.response_id": event.response_id},
            )
        elif isinstance(event, ResponseDone):
            self._done(event)
        elif isinstance(event, ErrorEvent):
            self._session.add_event("error", {"duplex.code": event.error.code})
        elif isinstance(event, SessionClosed):
            self._session.set_attribute("duplex.end_reason", event.reason)

    def unit(self, timing: UnitTiming) -> None:
        span = self._tracer.start_span(
            "duplex.unit",
            context=self._below,
            start_time=timing.planned_at,
            attributes={
                "duplex.epoch": timing.epoch,
                "duplex.turn_id": timing.turn_id,
                "duplex.seq": timing.seq,
            },
        )
        if timing.submitted_at is not None:
            span.add_event("submitted", timestamp=timing.submitted_at)
        if timing.fault is not None:
            span.set_attribute("duplex.code", timing.fault)
            span.set_status(self._api.StatusCode.ERROR)
        span.end(end_time=timing.ended_at)

    def end(self) -> None:
        if self._ended:
            return
        self._ended = True
        for span in self._responses.values():
            span.end()
        self._responses.clear()
        self._session.end()

    def _audio(self, response_id: str) -> None:
        span = self._responses.get(response_id)
        if span is not None and response_id not in self._speaking:
            self._speaking.add(response_id)
            span.add_event("first audio")

    def _done(self, event: ResponseDone) -> None:
        span = self._responses.pop(event.response_id, None)
        self._speaking.discard(event.response_id)
        if span is None:
            return
        span.set_attribute("duplex.status", event.response.status)
        if event.response.status == "failed":
            span.set_status(self._api.StatusCode.ERROR)
        span.end()
