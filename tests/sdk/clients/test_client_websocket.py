from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import msgspec
import pytest
from duplex_sdk.clients import (
    ClientAddressError,
    ClientConnectionError,
    ClientSessionClosedError,
    DuplexClient,
)
from duplex_sdk.clients.socket import session_url
from websockets.asyncio.server import Server, ServerConnection, serve

CREATED = {"type": "session.created", "event_id": "e", "session": {"id": "duplex-1"}}


@pytest.mark.parametrize(
    ("given", "complete"),
    [
        ("ws://h:1", "ws://h:1/v1/realtime?duplex=1&autostart=0"),
        ("h:1", "ws://h:1/v1/realtime?duplex=1&autostart=0"),
        ("http://h/", "ws://h/v1/realtime?duplex=1&autostart=0"),
        ("https://h/v1/duplex", "wss://h/v1/duplex?duplex=1&autostart=0"),
        ("ws://h?autostart=1&a=b", "ws://h/v1/realtime?duplex=1&autostart=1&a=b"),
    ],
)
def test_address_is_completed(given: str, complete: str) -> None:
    assert session_url(given, model=None, duplex=True) == complete


def test_stock_profile_and_model_are_asked_for_in_the_address() -> None:
    assert session_url("ws://h", model="m", duplex=False) == "ws://h/v1/realtime?model=m"


@pytest.mark.parametrize(
    "address",
    [
        "ftp://h",
        "ws://",
        "file:///x",
        "ws://h:99999",
        "ws://h:port",
        "ws://h:0",
        "ws://:8000",
        "ws://[::1",
        "",
    ],
)
def test_address_of_no_server_is_refused(address: str) -> None:
    with pytest.raises(ClientAddressError, match="address") as caught:
        session_url(address, model=None, duplex=True)
    assert "ws://" in str(caught.value.hint)


def port_of(server: Server) -> int:
    return int(next(iter(server.sockets)).getsockname()[1])


async def test_key_travels_as_bearer_token() -> None:
    seen: list[str | None] = []

    async def handler(connection: ServerConnection) -> None:
        assert connection.request is not None
        seen.append(connection.request.headers.get("Authorization"))
        await connection.recv()
        await connection.send(msgspec.json.encode(CREATED).decode())
        await connection.wait_closed()

    async with serve(handler, "127.0.0.1", 0) as server:
        client = DuplexClient(f"ws://127.0.0.1:{port_of(server)}", api_key="secret")
        await client.open()
        await client.close(timeout_s=0.05)
    assert seen == ["Bearer secret"]


async def test_refused_upgrade_says_status_and_what_to_do() -> None:
    def refuse(connection: ServerConnection, _: Any) -> Any:
        body = msgspec.json.encode({"error": {"message": "wrong key"}}).decode()
        return connection.respond(HTTPStatus.UNAUTHORIZED, body)

    async def handler(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with serve(handler, "127.0.0.1", 0, process_request=refuse) as server:
        client = DuplexClient(f"ws://127.0.0.1:{port_of(server)}")
        with pytest.raises(ClientConnectionError, match="wrong key") as refused:
            await client.open()
    assert refused.value.status == 401
    assert refused.value.hint is not None
    assert "DUPLEX_API_KEY" in refused.value.hint


async def test_unreachable_server_is_one_sentence_and_a_hint() -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.wait_closed()

    async with serve(handler, "127.0.0.1", 0) as server:
        port = port_of(server)
    client = DuplexClient(f"ws://127.0.0.1:{port}")
    with pytest.raises(ClientConnectionError, match="no connection to") as refused:
        await client.open()
    assert refused.value.hint is not None


@pytest.mark.parametrize(
    ("code", "kind"),
    [(1000, ClientSessionClosedError), (1011, ClientConnectionError)],
)
async def test_close_code_tells_an_end_from_a_fault(code: int, kind: type[Exception]) -> None:
    async def handler(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(msgspec.json.encode(CREATED).decode())
        await connection.recv()
        await connection.close(code, "reason")

    async with serve(handler, "127.0.0.1", 0) as server:
        client = DuplexClient(f"ws://127.0.0.1:{port_of(server)}")
        await client.open()
        events = client.events()
        await client.clear_input()
        async with asyncio.timeout(5):
            if kind is ClientSessionClosedError:
                assert [event async for event in events] == []
            else:
                with pytest.raises(kind):
                    await anext(events)
        with pytest.raises(kind):
            await client.clear_input()
        await client.close()
