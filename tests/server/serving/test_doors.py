"""Keys, origins, subprotocols and the plain HTTP routes.

B12 and B20 are cases of public bug reports, like those of ``test_open_bugs.py``.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest
from duplex_server.stages import ReplicaStatus
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

KEY = "sk-secret-1234"
BEARER = {"Authorization": f"Bearer {KEY}"}
KEY_ENTRY = f"openai-insecure-api-key.{KEY}"


async def upgrade_status(url: str, **options: Any) -> int:
    try:
        async with connect(url, **options):
            return 101
    except InvalidStatus as refused:
        return int(refused.response.status_code)


async def call(server, method: str, path: str, **options: Any) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.request(method, server.url(path, "http"), **options)


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/duplex?model=stub"])
async def test_b12_websocket_needs_the_key(start_server, engine, path):
    async with start_server(engine, api_keys=["other", KEY]) as server:
        url = server.url(path)
        assert await upgrade_status(url) == 401
        assert await upgrade_status(url, additional_headers={"Authorization": "Bearer no"}) == 401
        assert await upgrade_status(f"{url}{'&' if '?' in url else '?'}api_key={KEY}") == 401
        assert await upgrade_status(url, additional_headers=BEARER) == 101
        assert await upgrade_status(url, subprotocols=["realtime", KEY_ENTRY]) == 101
    assert len(engine.opened) == 2


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/v1/models/stub"),
        ("GET", "/metrics"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/health"),
        ("GET", "/v1/embeddings"),
        ("GET", "/nowhere"),
    ],
)
async def test_b12_http_routes_need_the_same_key(start_server, engine, method, path):
    async with start_server(engine, api_keys=[KEY]) as server:
        assert (await call(server, method, path)).status_code == 401
        wrong = await call(server, method, path, headers={"Authorization": f"Bearer {KEY}x"})
        assert wrong.status_code == 401
        assert wrong.json()["error"]["code"] == "invalid_api_key"
        assert KEY not in wrong.text
        assert (await call(server, method, path, headers=BEARER)).status_code != 401


@pytest.mark.parametrize("path", ["/", "/health", "/static/page.js"])
async def test_what_holds_nothing_needs_no_key(start_server, engine, path):
    async with start_server(engine, api_keys=[KEY]) as server:
        assert (await call(server, "GET", path)).status_code in (200, 503)


async def test_b12_keys_are_never_logged_nor_echoed(start_server, engine, caplog):
    caplog.set_level(logging.DEBUG, logger="duplex_server")
    async with start_server(engine, api_keys=[KEY]) as server:
        async with connect(server.url("/v1/realtime"), subprotocols=["realtime", KEY_ENTRY]) as s:
            assert s.subprotocol == "realtime"
            assert KEY not in str(s.response.headers)
        await upgrade_status(server.url("/v1/realtime"), subprotocols=[f"{KEY_ENTRY}wrong"])
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    ("offered", "selected"),
    [
        (["realtime"], "realtime"),
        (["openai-beta.realtime-v1", "realtime"], "realtime"),
        (["realtime", "openai-insecure-api-key.x", "openai-agents-sdk.1"], "realtime"),
        (["openai-beta.realtime-v1"], None),
        (["openai-insecure-api-key.x"], None),
        (None, None),
    ],
)
async def test_only_realtime_is_ever_selected(start_server, engine, offered, selected):
    async with (
        start_server(engine) as server,
        connect(server.url("/v1/realtime"), subprotocols=offered) as socket,
    ):
        assert socket.subprotocol == selected


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 101),
        ("http://127.0.0.1:{port}", 101),
        ("HTTP://127.0.0.1:{port}", 101),
        ("https://127.0.0.1:{port}", 403),
        ("http://127.0.0.1:1", 403),
        ("http://127.0.0.1", 403),
        ("http://127.0.0.1.evil.example:{port}", 403),
        ("http://evil.example", 403),
        ("https://evil.example", 403),
        ("http://user@127.0.0.1:{port}", 403),
        ("http://127.0.0.1:{port}/", 403),
        ("null", 403),
        ("", 403),
        ("file://", 403),
        ("https://friend.example", 101),
        ("https://friend.example:443", 101),
        ("http://friend.example", 403),
    ],
)
async def test_b20_foreign_pages_are_refused_before_the_upgrade(
    start_server, engine, origin, status
):
    async with start_server(engine, allowed_origins=["https://friend.example"]) as server:
        sent = None if origin is None else origin.format(port=server.port)
        headers = {} if sent is None else {"Origin": sent}
        url = server.url("/v1/realtime")
        assert await upgrade_status(url, additional_headers=headers) == status
        answer = await call(server, "POST", "/v1/chat/completions", headers=headers, json={})
        assert (answer.status_code == 403) == (status == 403)
        assert (await call(server, "GET", "/health", headers=headers)).status_code != 403
    assert bool(engine.opened) == (status == 101)


async def test_null_and_every_origin_can_be_allowed_on_purpose(start_server, engine):
    for allowed, origin in (("null", "null"), ("*", "https://anywhere.example")):
        async with start_server(engine, allowed_origins=[allowed]) as server:
            headers = {"Origin": origin}
            url = server.url("/v1/realtime")
            assert await upgrade_status(url, additional_headers=headers) == 101


def test_an_allowed_origin_that_is_none_is_refused_at_the_start(start_server, engine):
    with pytest.raises(ValueError, match=r"friend\.example"):
        start_server(engine, allowed_origins=["friend.example/path"])


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/embeddings"), ("GET", "/v1/audio/speech"), ("DELETE", "/x"), ("GET", "/v2")],
)
async def test_other_routes_say_why_they_are_not_there(start_server, engine, method, path):
    async with start_server(engine) as server:
        answer = await call(server, method, path)
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert set(error) == {"type", "code", "message", "param"}
    assert error["code"] == "unsupported"
    assert "duplex mode" in error["message"]


async def test_other_websocket_paths_are_refused_with_a_status(start_server, engine):
    async with start_server(engine) as server:
        assert await upgrade_status(server.url("/v1/other")) == 404


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/v1/models"), ("GET", "/static/none.js"), ("GET", "/static/")]
)
async def test_every_refusal_has_the_same_envelope(start_server, engine, method, path):
    async with start_server(engine) as server:
        answer = await call(server, method, path)
    assert answer.status_code == 404
    assert answer.json()["error"]["type"] == "invalid_request_error"


async def test_models_lists_what_a_client_may_name(start_server, engine):
    async with start_server(engine) as server:
        listed = (await call(server, "GET", "/v1/models")).json()
        one = await call(server, "GET", "/v1/models/stub")
        none = await call(server, "GET", "/v1/models/other")
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["stub"]
    assert one.json() == listed["data"][0]
    assert none.status_code == 404


async def test_chat_completions_are_refused_where_the_model_has_none(start_server, engine):
    async with start_server(engine) as server:
        answer = await call(server, "POST", "/v1/chat/completions", json={"messages": []})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "unsupported"


async def test_metrics_count_refusals_and_errors_without_naming_sessions(start_server, full_engine):
    async with start_server(full_engine) as server:
        await upgrade_status(server.url("/v1/realtime"))
        page = (await call(server, "GET", "/metrics")).text
    assert 'duplex_admission_rejections_total{code="resource_exhausted"} 1.0' in page
    assert "duplex_session_slots" in page
    assert "duplex-" not in page


def replica(state: str, failures: int = 0, *, restarts: int = 9) -> ReplicaStatus:
    return ReplicaStatus(0, state, restarts, "it crashed", 0, None, failures)


@pytest.mark.parametrize(
    ("replicas", "status", "code"),
    [
        ((replica("ready", 2),), "ok", 200),
        ((replica("ready", 3),), "degraded", 200),
        ((replica("ready"), replica("dead", 9)), "degraded", 200),
        ((replica("dead", 1),), "degraded", 200),
        ((replica("loading", 3),), "failed", 503),
        ((replica("evicted"),), "failed", 503),
    ],
)
async def test_health_tells_a_restart_from_a_crash_loop(
    start_server, engine, replicas, status, code
):
    engine.replicas = replicas
    async with start_server(engine) as server:
        answer = await call(server, "GET", "/health")
    assert (answer.status_code, answer.json()["status"]) == (code, status)
    assert (answer.json()["reason"] is None) == (status == "ok")


async def test_a_replica_that_works_again_is_not_told_as_one_that_does_not(start_server, engine):
    engine.replicas = (replica("ready", 4), replica("dead", 1))
    async with start_server(engine) as server:
        reason = (await call(server, "GET", "/health")).json()["reason"]
    assert "replica 0 is ready again after 4 failures: it crashed" in reason
    assert "replica 0 is dead: it crashed" in reason


async def test_health_of_a_dead_engine_is_a_failure_with_its_reason(start_server, engine):
    engine.dead = "out of memory"
    async with start_server(engine) as server:
        answer = await call(server, "GET", "/health")
    assert answer.status_code == 503
    assert answer.json()["reason"] == "out of memory"


async def test_health_is_json_with_every_promised_key(start_server, engine):
    async with start_server(engine) as server:
        answer = await call(server, "GET", "/health")
    body = json.loads(answer.text)
    assert set(body) == {
        "status", "reason", "plugin", "session_mode", "sessions", "slots", "stages", "units",
    }  # fmt: skip
    assert set(body["sessions"]) == {"open", "detached"}
    assert set(body["slots"]) == {"used", "max"}
    assert set(body["units"]) == {"late", "dropped", "lag_ms"}
