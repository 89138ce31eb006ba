"""A client on the worst of networks: whatever breaks, no event is lost and none comes twice."""

from __future__ import annotations

import asyncio
import base64
import random
import socket
import struct
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.testing.session_lab import tone
from duplex_server.testing import Harness
from patience import PATIENCE_S
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

ROUNDS = 500
APPEND = {
    "type": "input_audio_buffer.append",
    "audio": base64.b64encode(tone(100, 16_000)).decode(),
}
REFUSED = ("invalid_resume_token", "runtime_resume_failed")
"""The second: a resume of ours that was given up had the lease for a moment."""
SCRIPT = {
    "turns": "commit",
    "pace": "burst",
    "answers": [{"text": "one two three four five", "ms": 1000, "delay_ms": 0}],
}


def frame(kind: str, **fields: Any) -> str:
    return msgspec.json.encode({"type": kind, **fields}).decode()


@dataclass
class Traveller:
    """What a client remembers between its sockets, and everything it was told."""

    url: str
    rng: random.Random
    session_id: str = ""
    token: str = ""
    told: list[dict[str, Any]] = field(default_factory=list)
    takeovers: int = 0
    returns: int = 0
    in_vain: int = 0
    refused: int = 0

    @property
    def last_seq(self) -> int:
        return self.told[-1]["server_event_seq"] if self.told else 0

    async def arrive(self) -> ClientConnection:
        raw = await self.dial()
        await raw.send(frame("session.update", session={}))
        self.note(await self.hear(raw))
        return raw

    async def dial(self) -> ClientConnection:
        # Without a limit of its own: a full queue would keep it from hearing the close frame.
        return await connect(self.url, max_size=None, max_queue=None)

    async def hear(self, raw: ClientConnection) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            event: dict[str, Any] = msgspec.json.decode(await raw.recv())
        return event

    def note(self, event: dict[str, Any]) -> None:
        assert event["type"] != "session.resync_required"
        if "resume_token" in event:
            self.session_id = event["session"]["id"]
            self.token = event["resume_token"]
        elif "server_event_seq" in event:
            assert event["server_event_seq"] == self.last_seq + 1
            self.told.append(event)

    async def come_back(self) -> ClientConnection:
        """Resume; while the server has not noticed the loss, an older token is refused."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                raw = await self.dial()
                await raw.send(self.request())
                if self.rng.random() < 0.15:
                    # Gone before anything was read: in the middle of the replay, or before it.
                    await asyncio.sleep(self.rng.random() * 0.004)
                    self.in_vain += 1
                    drop(raw)
                    continue
                answer = await self.hear(raw)
                if answer["type"] == "session.resumed":
                    self.note(answer)
                    self.returns += 1
                    return raw
                assert answer["error"]["code"] in REFUSED
                self.refused += 1
                await raw.close()
                await asyncio.sleep(0.005)

    async def race(self) -> ClientConnection:
        """Two sockets come back at once while the old one may still be there."""
        both = [await self.dial() for _ in range(2)]
        await asyncio.gather(*(raw.send(self.request()) for raw in both))
        answers = await asyncio.gather(*(self.hear(raw) for raw in both))
        won = [answer["type"] == "session.resumed" for answer in answers]
        for raw, answer in zip(both, answers, strict=True):
            if answer["type"] == "error":
                assert answer["error"]["code"] in REFUSED
                self.refused += 1
                await raw.close()
        if not any(won):
            return await self.come_back()
        assert won.count(True) == 1
        self.takeovers += 1
        self.note(answers[won.index(True)])
        return both[won.index(True)]

    def request(self) -> str:
        return frame(
            "session.resume",
            session_id=self.session_id,
            resume_token=self.token,
            last_received_server_event_seq=self.last_seq,
        )

    async def live(self, raw: ClientConnection) -> None:
        """Talk and listen for a while."""
        try:
            if self.rng.random() < 0.6:
                await raw.send(frame("session.heartbeat"))
            if self.rng.random() < 0.4:
                for each in (
                    msgspec.json.encode(APPEND).decode(),
                    frame("input_audio_buffer.commit"),
                ):
                    await raw.send(each)
                await raw.send(frame("response.create"))
            if self.rng.random() < 0.3:
                await raw.send(frame("session.event_ack", server_event_seq=self.last_seq))
            for _ in range(self.rng.randrange(25)):
                async with asyncio.timeout(0.02):
                    self.note(msgspec.json.decode(await raw.recv()))
        except TimeoutError:
            return
        except ConnectionClosed as closed:
            if closed.rcvd is None or closed.rcvd.reason != "session_replaced":
                raise


def drop(raw: ClientConnection) -> None:
    sock = raw.transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.transport.abort()


@pytest.mark.timeout(300)
async def test_no_event_is_lost_or_repeated_over_rude_disconnects() -> None:
    limits = DuplexSessionRuntimeConfig(max_sessions=1)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    async with Harness().server("scripted", {"script": SCRIPT}, limits=limits) as server:
        client = Traveller(server.url + "/v1/duplex?autostart=0", random.Random(seed))
        raw = await client.arrive()
        for _ in range(ROUNDS):
            await client.live(raw)
            former, way = raw, client.rng.random()
            if way < 0.4:
                drop(former)
            elif way < 0.6:
                await former.close(client.rng.choice([1000, 1001, 4000]))
            raw = await (client.race() if client.rng.random() < 0.2 else client.come_back())
            drop(former)
        await raw.send(frame("session.close"))
        while client.told[-1]["type"] != "session.closed":
            client.note(await client.hear(raw))
        await raw.close()
        assert client.returns + client.takeovers >= ROUNDS
        # Of each kind there were many: cut in a replay, raced for, or simply gone.
        assert min(client.in_vain, client.takeovers, client.refused, client.returns) > 20
        assert server.omni.health().slots_used == 0
    ids = [event["event_id"] for event in client.told]
    assert len(set(ids)) == len(ids)
    assert [event["server_event_seq"] for event in client.told] == [*range(1, len(ids) + 1)]
    opened = [e["response_id"] for e in client.told if e["type"] == "response.created"]
    ended = [e["response_id"] for e in client.told if e["type"] == "response.done"]
    assert opened == ended
    assert len(opened) > 2
