from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from duplex_sdk.clients import (
    ClientConnectionError,
    ClientProtocolError,
    ClientSessionClosedError,
    DuplexClient,
)
from duplex_sdk.protocol.duplex import SessionClosed, SpeechStarted


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_opening_configures_and_waits_for_the_session(socket: Any) -> None:
    client = DuplexClient(
        "http://there", {"voice": "x"}, socket_factory=socket.open, heartbeat_s=None
    )
    opening = asyncio.create_task(client.open())
    await settle()
    assert not opening.done()
    assert socket.sent[0]["type"] == "session.update"
    assert socket.sent[0]["session"] == {"voice": "x"}
    socket.says_created(supports_barge_in=True)
    await opening
    assert client.session_id == "duplex-1"
    assert client.capabilities == {"supports_barge_in": True}
    socket.says("session.closed", session_id="duplex-1", epoch=0, reason="client_close", event={})
    await client.close()


async def test_refused_session_raises_and_lets_the_socket_go(
    socket: Any, client: DuplexClient
) -> None:
    socket.says(
        "error",
        error={"type": "invalid_request_error", "code": "invalid_session_config", "message": "no"},
    )
    with pytest.raises(ClientProtocolError) as refused:
        await client.open()
    assert refused.value.code == "invalid_session_config"
    assert socket.closed
    assert client.closed


async def test_connection_lost_while_opening_raises(socket: Any, client: DuplexClient) -> None:
    socket.breaks(ClientConnectionError("reset"))
    with pytest.raises(ClientConnectionError, match="reset"):
        await client.open()
    assert socket.closed


def test_silent_server_is_given_up(in_virtual_time: Callable[[Any], Any], socket: Any) -> None:
    async def main() -> float:
        client = DuplexClient("ws://there", socket_factory=socket.open, open_timeout_s=30)
        with pytest.raises(TimeoutError):
            await client.open()
        return asyncio.get_running_loop().time()

    assert in_virtual_time(main) == pytest.approx(30)
    assert socket.closed


async def test_cancelled_opening_lets_the_socket_go(socket: Any, client: DuplexClient) -> None:
    opening = asyncio.create_task(client.open())
    await settle()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert socket.closed


async def test_a_client_opens_only_once(socket: Any, client: DuplexClient) -> None:
    socket.says_created()
    async with client:
        socket.says("session.closed", session_id="", epoch=0, reason="done", event={})
        with pytest.raises(RuntimeError):
            await client.open()


async def test_close_waits_for_the_terminal_event(socket: Any, client: DuplexClient) -> None:
    socket.says_created()
    await client.open()
    events = client.events()
    closing = asyncio.create_task(client.close())
    await settle()
    assert not closing.done()
    assert socket.sent_types()[-1] == "session.close"
    socket.says("session.closed", session_id="s", epoch=0, reason="client_close", event={})
    await closing
    assert [type(event) async for event in events] == [SessionClosed]
    assert socket.closed


def test_close_gives_up_on_a_server_that_never_ends(
    in_virtual_time: Callable[[Any], Any], socket: Any
) -> None:
    async def main() -> float:
        client = DuplexClient("ws://there", socket_factory=socket.open, heartbeat_s=None)
        socket.says_created()
        await client.open()
        await client.close(timeout_s=20)
        return asyncio.get_running_loop().time()

    assert in_virtual_time(main) == pytest.approx(20)
    assert socket.closed


async def test_closed_session_refuses_to_send(socket: Any, client: DuplexClient) -> None:
    socket.says_created()
    async with client:
        socket.says("session.closed", session_id="s", epoch=0, reason="shutdown", event={})
        await settle()
        assert client.closed
        with pytest.raises(ClientSessionClosedError) as closed:
            await client.append_audio(b"\0\0")
    assert closed.value.reason == "shutdown"


async def test_lost_connection_reaches_every_listener(socket: Any, client: DuplexClient) -> None:
    socket.says_created()
    async with client:
        events, responses = client.events(), client.responses()
        waiting = asyncio.create_task(client.wait_for(SpeechStarted))
        await settle()
        socket.breaks(ClientConnectionError("cable"))
        for listener in (anext(events), anext(responses), waiting):
            with pytest.raises(ClientConnectionError, match="cable"):
                await listener


async def test_orderly_close_of_the_socket_ends_listeners_quietly(
    socket: Any, client: DuplexClient
) -> None:
    socket.says_created()
    async with client:
        events = client.events()
        socket.breaks(ClientSessionClosedError("client_close"))
        assert [event async for event in events] == []


async def test_listener_of_a_closed_client_ends_at_once(socket: Any, client: DuplexClient) -> None:
    socket.says_created()
    await client.open()
    socket.says("session.closed", session_id="s", epoch=0, reason="r", event={})
    await client.close()
    assert [event async for event in client.events()] == []
    assert [response async for response in client.responses()] == []
