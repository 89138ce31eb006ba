"""Sessions that outlive their sockets, on a real server with raw sockets."""

from __future__ import annotations

import asyncio
import base64
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.testing.session_lab import tone
from duplex_server.runtime.control import ResumeSessionMessage
from duplex_server.testing import Harness, RunningServer
from patience import PATIENCE_S, eventually
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

PATH = "/v1/duplex?autostart=0"
APPEND = {
    "type": "input_audio_buffer.append",
    "audio": base64.b64encode(tone(300, 16_000)).decode(),
}


class Peer:
    """A raw socket that remembers what a client needs to come back."""

    def __init__(self, raw: ClientConnection) -> None:
        self.raw = raw
        self.session_id = ""
        self.token = ""
        self.announced: dict[str, Any] = {}
        self.generation = 0
        self.last_seq = 0
        self.seqs: list[int] = []

    async def send(self, frame: dict[str, Any]) -> None:
        await self.raw.send(msgspec.json.encode(frame).decode())

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            event: dict[str, Any] = msgspec.json.decode(await self.raw.recv())
        if event["type"] in ("session.created", "session.resumed"):
            self.session_id = event["session"]["id"]
            self.announced = event
            self.token = event["resume_token"]
            self.generation = event["attachment_generation"]
        if "server_event_seq" in event:
            self.last_seq = event["server_event_seq"]
            self.seqs.append(self.last_seq)
        return event

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """Everything up to the next event of this type."""
        events = [await self.next()]
        while events[-1]["type"] != kind:
            events.append(await self.next())
        return events

    async def ending(self) -> tuple[list[dict[str, Any]], int | None, str | None]:
        events = []
        try:
            while True:
                events.append(await self.next())
        except ConnectionClosed:
            return events, self.raw.close_code, self.raw.close_reason

    async def say(self) -> None:
        """One turn that asks for an answer."""
        await self.send(APPEND)
        await self.send({"type": "input_audio_buffer.commit"})
        await self.send({"type": "response.create"})

    async def alive(self) -> bool:
        await self.send({"type": "session.heartbeat"})
        await self.until("session.heartbeat_ack")
        return True

    def resume_frame(self, **changes: Any) -> dict[str, Any]:
        return {
            "type": "session.resume",
            "session_id": self.session_id,
            "resume_token": self.token,
            "last_received_server_event_seq": self.last_seq,
        } | changes

    def drop(self) -> None:
        """As a crashed machine does: RST, no close frame."""
        raw = self.raw.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.raw.transport.abort()


@asynccontextmanager
async def server_with(
    limits: dict[str, Any] | None = None, **script: Any
) -> AsyncIterator[RunningServer]:
    answer = {"text": "one two three four", "ms": 400, "delay_ms": 0}
    whole = {"turns": "commit", "pace": "burst", "answers": [answer]} | script
    config = DuplexSessionRuntimeConfig(**{"max_sessions": 4} | (limits or {}))
    async with Harness().server("scripted", {"script": whole}, limits=config) as server:
        yield server


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    async with server_with() as running:
        yield running


async def opened(server: RunningServer, path: str = PATH) -> Peer:
    peer = Peer(await connect(server.url + path, max_size=None))
    if "duplex" in path:
        await peer.send({"type": "session.update", "session": {}})
        await peer.until("session.updated")
    else:
        await peer.until("session.created")
        manual = {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
        await peer.send({"type": "session.update", "session": manual})
        await peer.until("session.updated")
    return peer


async def knocking(server: RunningServer, frame: dict[str, Any], path: str = PATH) -> Peer:
    peer = Peer(await connect(server.url + path, max_size=None))
    await peer.send(frame)
    return peer


async def resumed(server: RunningServer, former: Peer, **changes: Any) -> Peer:
    """A new socket that has the session of a former one."""
    peer = await knocking(server, former.resume_frame(**changes))
    peer.last_seq = former.last_seq
    assert (await peer.next())["type"] == "session.resumed"
    return peer


async def refusal(
    server: RunningServer, frame: dict[str, Any]
) -> tuple[dict[str, Any], int | None, str | None]:
    peer = await knocking(server, frame)
    (event,), code, reason = await peer.ending()
    return event, code, reason


async def until_detached(server: RunningServer, count: int = 1) -> None:
    await eventually(lambda: server.omni.health().detached_sessions == count)


async def until_slots(server: RunningServer, count: int) -> None:
    await eventually(lambda: server.omni.health().slots_used == count)


# What a refused resume says, and that it leaves the session as it was


@pytest.mark.parametrize(
    ("changes", "code", "close_code"),
    [
        ({"session_id": ""}, "invalid_session_resume", 1008),
        ({"session_id": 7}, "invalid_session_resume", 1008),
        ({"resume_token": None}, "invalid_session_resume", 1008),
        ({"last_received_server_event_seq": -1}, "invalid_session_resume", 1008),
        ({"last_received_server_event_seq": "3"}, "invalid_session_resume", 1008),
        ({"session_id": "duplex-0"}, "session_resume_expired", 1008),
        ({"resume_token": "x" * 43}, "invalid_resume_token", 1008),
        ({"resume_token": "ü"}, "invalid_resume_token", 1008),
        ({"last_received_server_event_seq": 9999}, "session_resume_conflict", 1008),
    ],
)
@pytest.mark.parametrize("attached", [True, False])
async def test_refused_resume_names_its_cause_and_harms_nothing(
    server: RunningServer, changes: dict[str, Any], code: str, close_code: int, attached: bool
) -> None:
    peer = await opened(server)
    if not attached:
        peer.drop()
        await until_detached(server)
    frame = peer.resume_frame(**changes) | {"event_id": "mine"}
    event, closed_with, reason = await refusal(server, frame)
    assert event["type"] == "error"
    assert event["error"]["code"] == code
    assert event["error"]["event_id"] == "mine"
    assert "server_event_seq" not in event
    assert (closed_with, reason) == (close_code, code)
    if attached:
        assert await peer.alive()
    else:
        assert server.omni.health().detached_sessions == 1
    assert await (await resumed(server, peer)).alive()


async def test_a_number_below_the_boundary_asks_for_a_new_session_and_harms_nothing(
    server: RunningServer,
) -> None:
    peer = await opened(server)
    await peer.alive()
    await peer.send({"type": "session.event_ack", "server_event_seq": peer.last_seq})
    await peer.alive()
    event, code, reason = await refusal(
        server, peer.resume_frame(last_received_server_event_seq=peer.last_seq - 2)
    )
    assert event["type"] == "session.resync_required"
    assert event["reason"] == "journal_gap"
    assert event["session_id"] == peer.session_id
    assert (code, reason) == (1000, "resync_required")
    assert await peer.alive()
    back = await resumed(server, peer, last_received_server_event_seq=peer.last_seq - 1)
    assert (await back.next())["type"] == "session.heartbeat_ack"
    assert await back.alive()


async def test_a_lease_that_moved_on_refuses_the_resume(server: RunningServer) -> None:
    peer = await opened(server)
    # Somebody takes the lease without the serving layer hearing of it.
    await server.omni.engine.control(
        ResumeSessionMessage("elsewhere", peer.session_id, 0), timeout_s=5
    )
    event, code, _ = await refusal(server, peer.resume_frame())
    assert event["error"]["code"] == "runtime_resume_failed"
    assert code == 1008
    assert await peer.alive()


@pytest.mark.parametrize("end", ["session.close", "grace"])
async def test_a_session_that_ended_cannot_be_resumed(end: str) -> None:
    async with server_with({"disconnect_grace_s": 0.05, "reaper_interval_s": 0.05}) as server:
        peer = await opened(server)
        if end == "grace":
            peer.drop()
        else:
            await peer.send({"type": "session.close"})
            events, code, _ = await peer.ending()
            assert (events[-1]["type"], code) == ("session.closed", 1000)
        await until_slots(server, 0)
        event, _, _ = await refusal(server, peer.resume_frame())
        assert event["error"]["code"] == "session_resume_expired"


async def test_resume_is_taken_only_as_the_first_frame(server: RunningServer) -> None:
    peer, other = await opened(server), await opened(server)
    await peer.send(other.resume_frame())
    assert (await peer.next())["error"]["code"] == "unsupported_session_resume"
    assert await peer.alive()
    assert await other.alive()


# What a resume gives


async def test_missed_events_follow_in_order_and_unchanged(server: RunningServer) -> None:
    peer, witness = await opened(server), await opened(server)
    await peer.say()
    first = await peer.until("rate_limits.updated")
    peer.drop()
    await until_detached(server)
    back = await resumed(server, peer, last_received_server_event_seq=0)
    assert back.announced["newest_server_event_seq"] == peer.last_seq
    replayed = [await back.next() for _ in range(peer.last_seq)]
    assert back.generation == 2
    assert back.token != peer.token
    assert replayed[-len(first) :] == first
    assert [event["server_event_seq"] for event in replayed] == [*range(1, peer.last_seq + 1)]
    assert await back.alive()
    assert back.last_seq == peer.last_seq + 1
    assert await witness.alive()


async def test_the_session_goes_on_while_nobody_is_there(server: RunningServer) -> None:
    peer = await opened(server)
    await peer.say()
    await peer.until("response.created")
    peer.drop()
    await until_detached(server)
    handle = server.omni.get_session(peer.session_id)
    assert handle is not None
    back = await resumed(server, peer)
    await back.until("response.done")
    assert back.seqs == [*range(peer.last_seq + 1, back.last_seq + 1)]
    assert await back.alive()


async def test_a_used_token_is_refused_once_its_successor_was_read(server: RunningServer) -> None:
    peer = await opened(server)
    peer.drop()
    await until_detached(server)
    back = await resumed(server, peer)
    assert await back.alive()
    back.drop()
    await until_detached(server)
    event, _, _ = await refusal(server, peer.resume_frame())
    assert event["error"]["code"] == "invalid_resume_token"
    assert await (await resumed(server, back)).alive()


async def test_a_client_that_never_read_its_new_token_comes_back_with_the_old(
    server: RunningServer,
) -> None:
    peer = await opened(server)
    peer.drop()
    await until_detached(server)
    for generation in (2, 3, 4):
        back = await resumed(server, peer)
        assert back.generation == generation
        # Attached: only the new token counts.
        event, _, _ = await refusal(server, peer.resume_frame())
        assert event["error"]["code"] == "invalid_resume_token"
        back.drop()
        await until_detached(server)
    assert await (await resumed(server, peer)).alive()


async def test_a_takeover_tells_and_closes_the_former_socket(server: RunningServer) -> None:
    peer = await opened(server)
    back = await resumed(server, peer)
    events, code, reason = await peer.ending()
    assert [event["type"] for event in events] == ["session.replaced"]
    assert events[0]["attachment_generation"] == 1
    assert events[0]["session_id"] == peer.session_id
    assert "server_event_seq" not in events[0]
    assert (code, reason) == (1000, "session_replaced")
    await asyncio.sleep(0.05)
    assert server.omni.health().detached_sessions == 0
    assert await back.alive()


async def test_two_resumes_with_one_token_have_one_winner(server: RunningServer) -> None:
    for attached in (True, False):
        peer = await opened(server)
        if not attached:
            peer.drop()
            await until_detached(server)
        both = [Peer(await connect(server.url + PATH)) for _ in range(2)]
        await asyncio.gather(*(each.send(peer.resume_frame()) for each in both))
        answers = await asyncio.gather(*(each.next() for each in both))
        winner, loser = both if answers[0]["type"] == "session.resumed" else (both[1], both[0])
        lost = answers[both.index(loser)]
        assert lost["error"]["code"] == "invalid_resume_token"
        assert (await loser.ending())[1] == 1008
        assert await winner.alive()
        winner.drop()
        await until_detached(server)
        assert await (await resumed(server, winner)).alive()
        await server.omni.close_session(peer.session_id)


async def test_acknowledged_events_leave_the_journal(server: RunningServer) -> None:
    peer = await opened(server)
    await peer.say()
    await peer.until("rate_limits.updated")
    for number in (peer.last_seq, peer.last_seq, 1, 0):
        await peer.send({"type": "session.event_ack", "server_event_seq": number})
    await peer.send(
        {"type": "session.event_ack", "server_event_seq": peer.last_seq + 1, "event_id": "e"}
    )
    error = (await peer.next())["error"]
    assert (error["code"], error["event_id"]) == ("invalid_event_ack", "e")
    assert await peer.alive()
    back = await resumed(server, peer)
    assert await back.alive()


async def test_a_full_journal_is_announced_once_and_the_session_goes_on() -> None:
    async with server_with({"resume_replay_max_bytes_per_session": 6000}) as server:
        peer = await opened(server)
        await peer.say()
        events = await peer.until("response.done")
        overflow = [event for event in events if event["type"] == "session.resync_required"]
        assert [event["reason"] for event in overflow] == ["journal_overflow"]
        where = events.index(overflow[0])
        assert all("server_event_seq" in event for event in events[:where])
        assert not any("server_event_seq" in event for event in events[where:])
        event, _, _ = await refusal(server, peer.resume_frame())
        assert event["reason"] == "journal_gap"
        assert await peer.alive()


async def test_events_too_old_cannot_be_replayed() -> None:
    async with server_with({"resume_replay_ttl_s": 0.05}) as server:
        peer = await opened(server)
        await peer.alive()
        await asyncio.sleep(0.1)
        event, code, _ = await refusal(server, peer.resume_frame(last_received_server_event_seq=0))
        assert (event["type"], code) == ("session.resync_required", 1000)
        assert await (await resumed(server, peer)).alive()


async def test_a_silent_client_is_detached_not_ended(server: RunningServer) -> None:
    peer = Peer(await connect(server.url + PATH))
    await peer.send({"type": "session.update", "session": {"idle_timeout_s": 0.1}})
    await peer.until("session.updated")
    _, code, _ = await peer.ending()
    assert code == 1000
    await until_detached(server)
    assert await (await resumed(server, peer)).alive()


async def test_a_session_whose_creation_nobody_heard_is_ended(server: RunningServer) -> None:
    gone = await connect(server.url + PATH)
    await gone.send('{"type":"session.update","session":{}}')
    peer = Peer(gone)
    peer.drop()
    await until_slots(server, 0)


async def test_metrics_count_how_resumes_went(server: RunningServer) -> None:
    peer = await opened(server)
    await refusal(server, peer.resume_frame(resume_token="x"))
    await resumed(server, peer)
    async with httpx.AsyncClient() as client:
        page = (await client.get(server.url.replace("ws", "http", 1) + "/metrics")).text
    assert 'duplex_resumes_total{result="resumed"} 1.0' in page
    assert 'duplex_resumes_total{result="invalid_resume_token"} 1.0' in page
    assert "duplex_journal_overflows_total 0.0" in page
    assert peer.session_id not in page


# The openai profile


async def test_stock_client_that_vanishes_ends_its_session_at_once(server: RunningServer) -> None:
    peer = await opened(server, "/v1/realtime")
    peer.drop()
    await until_slots(server, 0)


async def test_openai_client_that_acknowledges_can_come_back(server: RunningServer) -> None:
    peer = await opened(server, "/v1/realtime")
    await peer.send({"type": "session.event_ack", "server_event_seq": peer.last_seq})
    await peer.say()
    await peer.until("response.created")
    peer.drop()
    await until_detached(server)
    back = await knocking(server, peer.resume_frame(), "/v1/realtime?resume=1")
    back.last_seq = peer.last_seq
    announced = await back.next()
    assert announced["type"] == "session.resumed"
    events = await back.until("response.done")
    # The profile it was opened in: nothing of the third tier, GA's response object.
    assert events[-1]["response"]["metadata"] is None
    assert back.seqs == [*range(peer.last_seq + 1, back.last_seq + 1)]


async def test_openai_journal_begins_with_the_first_ack(server: RunningServer) -> None:
    peer = await opened(server, "/v1/realtime")
    await peer.say()
    await peer.until("response.done")
    await peer.send({"type": "session.event_ack", "server_event_seq": 0})
    assert await peer.alive()
    event, _, _ = await refusal(server, peer.resume_frame(last_received_server_event_seq=0))
    assert event["reason"] == "journal_gap"
    back = await resumed(server, peer, last_received_server_event_seq=peer.last_seq - 1)
    assert (await back.next())["type"] == "session.heartbeat_ack"


async def test_openai_takeover_keeps_the_journal_from_then_on(server: RunningServer) -> None:
    peer = await opened(server, "/v1/realtime")
    back = await knocking(server, peer.resume_frame(), "/v1/realtime?resume=1")
    assert (await back.next())["type"] == "session.resumed"
    assert await back.alive()
    back.drop()
    await until_detached(server)
    again = await resumed(server, back)
    assert await again.alive()
