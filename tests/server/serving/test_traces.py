"""Spans of a session, read back from an exporter in memory."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    ResponseCreated,
    ResponseDone,
    ResponseObject,
    SessionClosed,
    error_event,
)
from duplex_server.serving import traces

sdk = pytest.importorskip("opentelemetry.sdk.trace")


def response(status: str) -> ResponseObject:
    return ResponseObject(id="r", status=status, output_modalities=("audio",))  # type: ignore[arg-type]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Any:
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter.get_finished_spans


def test_a_session_and_its_responses_are_spans(spans: Any) -> None:
    trace = traces.session_trace("duplex-1", "openai")
    trace.event(ResponseCreated(response_id="r", response=response("in_progress")))
    for _ in range(3):
        trace.event(AudioDelta(response_id="r", item_id="i", delta=b"", format="pcm16"))
    trace.event(ResponseDone(response_id="r", response=response("failed")))
    trace.event(error_event("output_backpressure", "nobody reads", new_id="e"))
    trace.event(SessionClosed(reason="output_backpressure"))
    trace.end()
    trace.end()
    answer, session = spans()
    assert (answer.name, session.name) == ("duplex.response", "duplex.session")
    assert answer.parent.span_id == session.context.span_id
    assert [event.name for event in answer.events] == ["first audio"]
    assert answer.attributes["duplex.status"] == "failed"
    assert not answer.status.is_ok
    assert session.attributes["duplex.end_reason"] == "output_backpressure"
    assert session.attributes["duplex.profile"] == "openai"
    assert [event.attributes["duplex.code"] for event in session.events] == ["output_backpressure"]


def test_a_response_left_open_ends_with_its_session(spans: Any) -> None:
    trace = traces.session_trace("duplex-1", "duplex")
    trace.event(ResponseCreated(response_id="r", response=response("in_progress")))
    trace.end()
    assert [span.name for span in spans()] == ["duplex.response", "duplex.session"]


def test_without_the_extra_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_api", lambda: None)
    trace = traces.session_trace("duplex-1", "duplex")
    trace.event(SessionClosed(reason="client_close"))
    trace.end()
