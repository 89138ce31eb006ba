"""Every figure of ``/metrics``, on a real server: it is there, and it moves with what it counts."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from duplex_sdk.clients import ClientConnectionError, ClientError
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import DuplexEvent
from duplex_sdk.testing.session_lab import tone
from duplex_server.entrypoints import DuplexSessionError
from duplex_server.runtime.vad import EnergyVad, VadProvider
from duplex_server.testing import Harness, RunningServer
from patience import PATIENCE_S

PROMISED = {
    "sessions": "gauge",
    "session_slots": "gauge",
    "admission_rejections_total": "counter",
    "errors_total": "counter",
    "input_queue_bytes": "gauge",
    "output_queue_bytes": "gauge",
    "mailbox_depth": "gauge",
    "append_to_first_delta_seconds": "histogram",
    "cancel_to_terminal_seconds": "histogram",
    "end_of_speech_to_first_audio_seconds": "histogram",
    "stage_step_seconds": "histogram",
    "stage_batch_size": "histogram",
    "units_late_total": "counter",
    "units_dropped_total": "counter",
    "unit_lag_seconds": "gauge",
    "resumes_total": "counter",
    "journal_overflows_total": "counter",
    "output_overflows_total": "counter",
    "worker_restarts_total": "counter",
    "cleanup_retries_total": "counter",
    "nan_samples_total": "counter",
}
SPEECH = tone(400, 16_000)
COMMIT = {"turns": "commit", "pace": "burst", "answers": [{"ms": 200, "delay_ms": 0}]}


async def page_of(server: RunningServer) -> str:
    async with httpx.AsyncClient() as client:
        return (await client.get(server.url.replace("ws", "http", 1) + "/metrics")).text


async def figures_of(server: RunningServer) -> dict[str, float]:
    lines = (await page_of(server)).splitlines()
    rows = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name.removeprefix("duplex_"): float(value) for name, value in rows}


async def becomes(server: RunningServer, good: Callable[[dict[str, float]], bool]) -> None:
    figures: dict[str, float] = {}
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not good(figures := await figures_of(server)):  # noqa: ASYNC110 - as a scraper
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(figures) from None


def serving(script: dict[str, Any] | None = None, **limits: Any) -> Any:
    config = DuplexSessionRuntimeConfig(**{"max_sessions": 2} | limits)
    return Harness().server("scripted", {"script": script or COMMIT}, limits=config)


async def until(events: Any, kind: str) -> DuplexEvent:
    async with asyncio.timeout(PATIENCE_S):
        async for event in events:
            if event.type == kind:
                return event  # type: ignore[no-any-return]
    raise AssertionError(f"no {kind}")


async def test_every_promised_figure_is_there_as_what_it_is() -> None:
    async with serving() as server:
        page = await page_of(server)
    said = dict(
        line.removeprefix("# TYPE duplex_").split(" ")
        for line in page.splitlines()
        if line.startswith("# TYPE duplex_")
    )
    assert {name: said.get(name) for name in PROMISED} == PROMISED


async def test_latencies_of_a_spoken_turn_and_of_a_cancel() -> None:
    script = {"answers": [{"ms": 20_000, "delay_ms": 0}]}
    vad = VadProvider.of(EnergyVad())
    async with Harness().server("scripted", {"script": script}, vad=vad) as server:
        session = {"turn_detection": {"type": "server_vad", "silence_duration_ms": 200}}
        async with server.client(session) as client:
            events = client.events()
            await client.append_audio(SPEECH)
            await client.append_audio(bytes(16_000))
            await until(events, "input_audio_buffer.speech_stopped")
            await until(events, "response.output_audio.delta")
            await client.cancel_response()
            await until(events, "response.done")
            figures = await figures_of(server)
    for name in ("append_to_first_delta", "end_of_speech_to_first_audio", "cancel_to_terminal"):
        assert figures[f"{name}_seconds_count"] == 1
        assert 0 < figures[f"{name}_seconds_sum"] < PATIENCE_S
    for name in ("step_seconds", "batch_size"):
        assert figures[f'stage_{name}_count{{stage="scripted"}}'] >= 1


async def test_sessions_slots_and_what_waits_in_queues() -> None:
    async with serving() as server:
        handle = await server.omni.open_session({"turn_detection": None})
        handle.append_audio(SPEECH)
        await becomes(
            server, lambda now: now["input_queue_bytes"] > 0 and now["mailbox_depth"] == 0
        )
        figures = await figures_of(server)
        assert figures["session_slots"] == 2
        assert figures['sessions{state="open"}'] == 1
        # Nobody has read its first event.
        assert figures["output_queue_bytes"] > 100
        await server.omni.detach_session(handle.session_id, 0)
        await becomes(server, lambda now: now['sessions{state="detached"}'] == 1)

        held, release = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            release.wait(PATIENCE_S)

        server.omni.engine._loop.call_soon_threadsafe(hold)
        assert await asyncio.to_thread(held.wait, 10)
        try:
            for _ in range(3):
                handle.heartbeat()
            assert (await figures_of(server))["mailbox_depth"] == 3
        finally:
            release.set()
        await handle.close()
        await becomes(server, lambda now: not now["input_queue_bytes"] + now["output_queue_bytes"])


async def test_refusals_and_errors_are_counted_by_code() -> None:
    async with serving(max_sessions=1) as server, server.client() as client:
        with pytest.raises(ClientError):
            async with server.client(reconnect=None):
                raise AssertionError("a second session was opened")
        with pytest.raises(DuplexSessionError):
            await server.omni.open_session()
        receipt = await client.commit()
        with pytest.raises(ClientError):
            await receipt.acknowledged()
        figures = await figures_of(server)
    assert figures['admission_rejections_total{code="resource_exhausted"}'] >= 1
    assert figures['errors_total{code="input_audio_buffer_commit_empty"}'] == 1


async def _broken_samples(server: RunningServer) -> None:
    async with server.client({"turn_detection": None}) as client:
        events = client.events()
        await client.append_audio(SPEECH)
        await client.commit(response_create=True)
        await until(events, "response.done")


async def _a_slow_model(server: RunningServer) -> None:
    """Its caller speaks on until each figure was seen to move: the lag comes and goes."""
    awaited = {"units_late_total", "units_dropped_total", "unit_lag_seconds"}
    async with server.client({"auto_response": True}) as client, asyncio.timeout(PATIENCE_S):
        while awaited:
            for _ in range(20):
                await client.append_audio(bytes(640))
                await asyncio.sleep(0.01)
            figures = await figures_of(server)
            awaited -= {name for name in awaited if figures[name] > 0}


async def _a_long_answer(server: RunningServer) -> None:
    async with server.client({"turn_detection": None}) as client:
        events = client.events()
        await client.append_audio(SPEECH)
        await client.commit(response_create=True)
        await until(events, "response.done")


async def _an_answer_nobody_reads(server: RunningServer) -> None:
    """The reader is the serving layer's, whose socket is read by nobody."""
    async with server.client({"turn_detection": None}, reconnect=None) as client:
        await client.append_audio(SPEECH)
        client._socket._connection.transport.pause_reading()  # type: ignore[union-attr]
        await client.commit(response_create=True)
        await becomes(server, lambda now: now["output_overflows_total"] > 0)
        client._socket._connection.transport.abort()  # type: ignore[union-attr]


async def _a_cleanup_that_fails(server: RunningServer) -> None:
    manager: Any = server.omni.engine.manager
    stages = manager._services.port

    class Reluctant:
        tries = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(stages, name)

        async def release_session(self, session_id: str) -> None:
            self.tries += 1
            if self.tries < 3:
                raise RuntimeError("not yet")
            await stages.release_session(session_id)

    manager._services = dataclasses.replace(manager._services, port=Reluctant())
    await (await server.omni.open_session()).close()
    await becomes(server, lambda now: now["cleanup_retries_total"] >= 2)


NAN = COMMIT | {"faults": [{"where": "step", "nth": 1, "do": "nan"}]}
SLOW = {"turns": "native", "unit_ms": 20, "cost_pct": 300}
LONG = COMMIT | {"answers": [{"ms": 600_000, "words": False, "delay_ms": 0}]}


@pytest.mark.parametrize(
    ("life", "script", "limits", "counted"),
    [
        (_broken_samples, NAN, {}, ("nan_samples_total",)),
        (_a_slow_model, SLOW, {}, ("units_late_total", "units_dropped_total")),
        (
            _a_long_answer,
            COMMIT,
            {"resume_replay_max_bytes_per_session": 3_000},
            ("journal_overflows_total",),
        ),
        (
            _an_answer_nobody_reads,
            LONG,
            {"output_stall_timeout_s": 0.1},
            ("output_overflows_total", 'errors_total{code="output_backpressure"}'),
        ),
        (_a_cleanup_that_fails, COMMIT, {"reaper_interval_s": 0.01}, ("cleanup_retries_total",)),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
async def test_what_goes_wrong_is_counted(
    life: Callable[[RunningServer], Awaitable[None]],
    script: dict[str, Any],
    limits: dict[str, Any],
    counted: tuple[str, ...],
) -> None:
    async with serving(script, **limits) as server:
        before = await figures_of(server)
        try:
            await life(server)
        except ClientConnectionError:
            assert life is _an_answer_nobody_reads
        await becomes(
            server, lambda now: all(now.get(each, 0) > before.get(each, 0) for each in counted)
        )
