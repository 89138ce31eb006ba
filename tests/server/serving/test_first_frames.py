"""Which first frame does what, in both profiles (real sockets, a stub for the engine)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus


async def first_events(url: str, *frames: Any, count: int = 1) -> list[dict[str, Any]]:
    async with connect(url, max_size=None) as socket:
        for frame in frames:
            await socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))
        return [json.loads(await socket.recv()) for _ in range(count)]


async def refusal(url: str, *frames: Any) -> tuple[dict[str, Any], int, str]:
    """The error a connection gets and how it is closed."""
    async with connect(url, max_size=None) as socket:
        for frame in frames:
            await socket.send(frame if isinstance(frame, str | bytes) else json.dumps(frame))
        error = json.loads(await socket.recv())
        with pytest.raises(ConnectionClosed):
            await socket.recv()
        assert socket.close_code is not None
        return error, socket.close_code, socket.close_reason or ""


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/realtime?duplex=0&model=anything&x=1"])
async def test_openai_profile_announces_the_session_before_any_frame(start_server, engine, path):
    async with start_server(engine) as server:
        (created,) = await first_events(server.url(path))
    assert created["type"] == "session.created"
    assert created["epoch"] == 0
    assert "server_event_seq" not in created
    assert engine.opened[0].lenient
    assert engine.opened[0].config is None
    defaults = engine.opened[0].profile_defaults
    assert defaults["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    assert defaults["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24000}
    assert defaults["output_modalities"] == ["audio"]


@pytest.mark.parametrize("path", ["/v1/duplex?model=stub", "/v1/realtime?duplex=TRUE&model=stub"])
async def test_duplex_profile_with_a_model_opens_at_once(start_server, engine, path):
    async with start_server(engine) as server:
        (created,) = await first_events(server.url(path))
    assert created["type"] == "session.created"
    assert not engine.opened[0].lenient
    assert engine.opened[0].profile_defaults == {}


@pytest.mark.parametrize(
    "path",
    ["/v1/duplex", "/v1/duplex?model=stub&autostart=0", "/v1/duplex?model=stub&autostart=no"],
)
@pytest.mark.parametrize(
    "frame",
    [
        {"type": "session.update", "session": {"voice": "a", "id": "mine"}},
        {"type": "session.update", "event_id": "e", "voice": "a", "id": "mine"},
    ],
)
async def test_first_update_opens_the_session_it_describes(start_server, engine, path, frame):
    async with start_server(engine) as server:
        created, updated = await first_events(server.url(path), frame, count=2)
    assert created["type"] == "session.created"
    assert updated["type"] == "session.updated"
    assert updated["session"] == created["session"]
    assert updated["server_event_seq"] == 1
    assert engine.opened[0].config["voice"] == "a"


async def test_any_other_first_command_opens_a_default_session_and_is_run(start_server, engine):
    async with start_server(engine) as server, connect(server.url("/v1/duplex")) as socket:
        await socket.send('{"type":"response.cancel","event_id":"c1"}')
        assert json.loads(await socket.recv())["type"] == "session.created"
        await socket.ping()
        assert [command.event_id for command in engine.opened[0].commands] == ["c1"]


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", "invalid_json"),
        ("", "invalid_json"),
        ("null", "bad_event"),
        ("[]", "bad_event"),
        ('"session.update"', "bad_event"),
        ("{}", "bad_event"),
        ({"type": 3}, "bad_event"),
        (b"\x00\xff", "bad_event"),
        ("[" * 100_000, "invalid_json"),
        ({"type": "session.resume"}, "invalid_session_resume"),
        (
            {"type": "session.resume", "session_id": "duplex-x", "resume_token": "t"},
            "session_resume_expired",
        ),
        ({"type": "session.update", "session": {"bad": 1}}, "invalid_session_config"),
        ({"type": "session.update", "session": {"model": "other"}}, "invalid_session_config"),
        ({"type": "session.event_ack", "server_event_seq": 0}, "bad_event"),
    ],
)
async def test_first_frame_that_opens_nothing_is_told_and_closed(start_server, engine, frame, code):
    async with start_server(engine) as server:
        error, close_code, reason = await refusal(server.url("/v1/duplex"), frame)
    assert error["type"] == "error"
    assert error["error"]["code"] == code
    assert error["event_id"].startswith("event_")
    assert (close_code, reason) == (1008, code)
    assert not engine.sessions


@pytest.mark.parametrize("path", ["/v1/duplex?autostart=0", "/v1/duplex?resume=1"])
async def test_without_autostart_only_an_update_or_a_resume_opens(start_server, engine, path):
    async with start_server(engine) as server:
        error, close_code, _ = await refusal(server.url(path), {"type": "response.create"})
    assert error["error"]["code"] == "bad_event"
    assert close_code == 1008
    assert not engine.opened


async def test_openai_client_that_will_resume_is_not_given_a_new_session(start_server, engine):
    async with start_server(engine) as server:
        error, close_code, _ = await refusal(
            server.url("/v1/realtime?resume=1"),
            {"type": "session.update", "session": {"type": "realtime"}, "event_id": "u"},
        )
    assert error["error"]["code"] == "bad_event"
    assert close_code == 1008
    assert not engine.opened


async def test_silent_client_is_told_that_it_took_too_long(start_server, engine):
    async with start_server(engine, config_timeout_s=0.05) as server:
        error, close_code, reason = await refusal(server.url("/v1/duplex"))
    assert error["error"]["code"] == "config_timeout"
    assert (close_code, reason) == (1008, "config_timeout")


async def test_unknown_model_is_refused_on_the_upgrade(start_server, engine):
    async with start_server(engine) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(server.url("/v1/duplex?model=other")):
                pass
    assert refused.value.response.status_code == 404
    body = json.loads(refused.value.response.body)
    assert body["error"]["code"] == "invalid_session_config"
    assert body["error"]["param"] == "model"


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/duplex?model=stub"])
async def test_full_server_says_when_to_come_back(start_server, full_engine, path):
    async with start_server(full_engine) as server:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(server.url(path)):
                pass
    response = refused.value.response
    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) > 0
    assert json.loads(response.body)["error"]["code"] == "resource_exhausted"


async def test_first_update_on_a_full_server_is_told_to_retry(start_server, full_engine):
    async with start_server(full_engine) as server:
        error, close_code, reason = await refusal(
            server.url("/v1/duplex"), {"type": "session.update", "session": {}}
        )
    assert error["error"]["retryable"] is True
    assert (close_code, reason) == (1013, "resource_exhausted")
