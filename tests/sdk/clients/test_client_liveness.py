"""What a connection carries beside the session: numbers, acknowledgements, heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from duplex_sdk.clients import ClientConnectionError, DuplexClient

InVirtualTime = Callable[[Callable[[], Any]], Any]


def acks(socket: Any) -> list[int]:
    return [frame["server_event_seq"] for frame in socket.sent_of("session.event_ack")]


async def ended(socket: Any, client: DuplexClient) -> None:
    socket.says("session.closed", session_id="s", epoch=0, reason="r", event={})
    await client.close()


def test_events_are_acknowledged_once_a_second_all_at_once(
    in_virtual_time: InVirtualTime, socket: Any, client: DuplexClient
) -> None:
    async def main() -> None:
        socket.says_created()
        await client.open()
        events = client.events()
        for seq in (1, 2, 3):
            socket.says("input_audio_buffer.cleared", server_event_seq=seq)
        await asyncio.sleep(0.9)
        assert acks(socket) == []
        assert len(events) == 3
        await asyncio.sleep(0.2)
        assert acks(socket) == [3]
        await asyncio.sleep(60)
        assert acks(socket) == [3]
        await ended(socket, client)

    in_virtual_time(main)


def test_many_bytes_are_acknowledged_without_waiting(
    in_virtual_time: InVirtualTime, socket: Any, client: DuplexClient
) -> None:
    async def main() -> None:
        socket.says_created()
        await client.open()
        socket.says("input_audio_buffer.cleared", server_event_seq=1, padding="x" * 300_000)
        await asyncio.sleep(0.01)
        assert acks(socket) == [1]
        await ended(socket, client)

    in_virtual_time(main)


def test_overflowed_listener_does_not_stop_acknowledgements(
    in_virtual_time: InVirtualTime, socket: Any, client: DuplexClient
) -> None:
    async def main() -> None:
        socket.says_created()
        await client.open()
        client.events(size=1)
        for seq in (1, 2, 3):
            socket.says("input_audio_buffer.cleared", server_event_seq=seq)
        await asyncio.sleep(2)
        assert acks(socket) == [3]
        await ended(socket, client)

    in_virtual_time(main)


async def test_number_already_seen_is_not_delivered_again(
    socket: Any, client: DuplexClient
) -> None:
    socket.says_created()
    await client.open()
    events = client.events()
    for seq in (1, 2, 2, 1, 3):
        socket.says("input_audio_buffer.cleared", server_event_seq=seq)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(events) == 3
    await ended(socket, client)


def beating(socket: Any) -> DuplexClient:
    return DuplexClient("ws://there", socket_factory=socket.open, heartbeat_s=30)


def test_silent_client_stays_alive_by_heartbeats(
    in_virtual_time: InVirtualTime, socket: Any
) -> None:
    async def main() -> None:
        client = beating(socket)
        socket.says_created()
        await client.open()
        await asyncio.sleep(29)
        assert socket.sent_of("session.heartbeat") == []
        for beats in (1, 2, 3):
            await asyncio.sleep(2)
            assert len(socket.sent_of("session.heartbeat")) == beats
            socket.says("session.heartbeat_ack", session_id="duplex-1")
            await asyncio.sleep(28)
        await ended(socket, client)

    in_virtual_time(main)


def test_talkative_client_needs_no_heartbeat(in_virtual_time: InVirtualTime, socket: Any) -> None:
    async def main() -> None:
        client = beating(socket)
        socket.says_created()
        await client.open()
        for _ in range(10):
            await asyncio.sleep(20)
            await client.clear_input()
            socket.says("input_audio_buffer.cleared")
        assert socket.sent_of("session.heartbeat") == []
        await ended(socket, client)

    in_virtual_time(main)


def test_server_that_only_listens_is_asked_for_a_sign_of_life(
    in_virtual_time: InVirtualTime, socket: Any
) -> None:
    async def main() -> float:
        client = beating(socket)
        socket.says_created()
        await client.open()
        talking = asyncio.create_task(client.stream_pcm(bytes(32_000 * 60), sample_rate_hz=16_000))
        with pytest.raises(ClientConnectionError, match="no sign of life"):
            await talking
        await client.close()
        return asyncio.get_running_loop().time()

    assert in_virtual_time(main) == pytest.approx(40, abs=0.1)
