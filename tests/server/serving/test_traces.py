"""Spans of a session, read back from an exporter in memory."""

from __future__ import annotations

import asyncio
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
from duplex_sdk.testing.session_lab import tone
from duplex_server.runtime.unit_watch import UnitTiming
from duplex_server.serving import traces
from duplex_server.testing import Harness
from patience import PATIENCE_S

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


def test_a_unit_is_a_span_from_its_plan_to_the_model(spans: Any) -> None:
    trace = traces.session_trace("duplex-1", "duplex")
    trace.unit(UnitTiming(1, 2, 3, 1_000, 2_000, 5_000, None))
    trace.unit(UnitTiming(1, 2, 4, 6_000, None, 7_000, "runtime_append_failed"))
    trace.end()
    taken, failed, session = spans()
    assert (taken.name, taken.start_time, taken.end_time) == ("duplex.unit", 1_000, 5_000)
    assert taken.parent.span_id == session.context.span_id
    assert [(event.name, event.timestamp) for event in taken.events] == [("submitted", 2_000)]
    assert taken.attributes["duplex.seq"] == 3
    assert taken.status.is_unset
    assert failed.attributes["duplex.code"] == "runtime_append_failed"
    assert failed.events == ()
    assert not failed.status.is_ok


async def test_a_served_session_has_a_span_for_each_unit_the_model_took(spans: Any) -> None:
    script = {"turns": "native", "answers": [{"ms": 160, "delay_ms": 0}]}
    async with (
        Harness().server("scripted", {"script": script}) as server,
        server.client({"turn_detection": None}) as client,
    ):
        events = client.events()
        await client.append_audio(tone(400, 16_000))
        await client.commit()
        await client.create_response()
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                if isinstance(event, ResponseDone):
                    break
    (session,) = [span for span in spans() if span.name == "duplex.session"]
    units = [span for span in spans() if span.name == "duplex.unit"]
    assert [unit.attributes["duplex.seq"] for unit in units] == [*range(1, len(units) + 1)]
    assert len(units) >= 2
    for unit in units:
        assert unit.parent.span_id == session.context.span_id
        assert unit.start_time <= unit.events[0].timestamp <= unit.end_time


def test_without_the_extra_nothing_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_api", lambda: None)
    trace = traces.session_trace("duplex-1", "duplex")
    trace.event(SessionClosed(reason="client_close"))
    trace.end()
