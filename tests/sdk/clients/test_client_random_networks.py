"""The client on networks drawn by chance, in virtual time: nothing lost, nothing twice.

``DUPLEX_NETWORK_SEEDS=5000`` draws more of them. A failure names its seed.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from duplex_sdk.clients import (
    ClientConnectionError,
    ClientError,
    ClientSessionClosedError,
    DuplexClient,
    Receipt,
    Reconnect,
    Socket,
)
from duplex_sdk.protocol.duplex import ItemDeleted, SpeechStopped

SEEDS = int(os.environ.get("DUPLEX_NETWORK_SEEDS", "200"))
STEPS = 60
DELAY_S = 0.02
TOKENS = "TOKEN-{}"


class Line(Socket):
    """A connection with two ends, a delay, and a way to die that only one end may notice."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.dead = False
        self.mute = False
        self.closed = False
        self.inbox: asyncio.Queue[str | ClientError] = asyncio.Queue()
        # Timers that are due together go off in any order; frames do not.
        self._up: deque[str] = deque()
        self._down: deque[str] = deque()

    async def send(self, frame: str) -> None:
        if self.dead or self.closed:
            raise ClientConnectionError("dead")
        self._up.append(frame)
        asyncio.get_running_loop().call_later(DELAY_S, self._arrive)

    def _arrive(self) -> None:
        frame = self._up.popleft()
        if not (self.dead or self.mute):
            self.world.session.take(self, msgspec.json.decode(frame))

    def tell(self, **payload: Any) -> None:
        self._down.append(msgspec.json.encode({"event_id": "e", **payload}).decode())
        asyncio.get_running_loop().call_later(DELAY_S, self._reach_client)

    def _reach_client(self) -> None:
        frame = self._down.popleft()
        if not (self.dead or self.mute):
            self.inbox.put_nowait(frame)

    async def recv(self) -> str | bytes:
        frame = await self.inbox.get()
        if isinstance(frame, ClientError):
            raise frame
        return frame

    async def close(self) -> None:
        self.closed = True
        self.inbox.put_nowait(ClientConnectionError("closed here"))
        self._server_notices()

    def cut(self) -> None:
        self.dead = True
        # Who sends may notice before who reads.
        asyncio.get_running_loop().call_later(
            self.world.rng.choice((0.0, 0.2)), self.inbox.put_nowait, ClientConnectionError("cut")
        )
        self._server_notices()

    def _server_notices(self) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self.world.rng.choice((0.0, 0.05, 2.0)), self.world.session.lost, self)


class Session:
    """What a server keeps of one session: numbers, a journal, tokens, and who is attached."""

    def __init__(self) -> None:
        self.journal: list[dict[str, Any]] = []
        self.attached: Line | None = None
        self.generation = 0
        self.presented: str | None = None
        self.handled: list[str] = []

    @property
    def token(self) -> str:
        return TOKENS.format(self.generation)

    def emit(self, **payload: Any) -> None:
        event = payload | {"server_event_seq": len(self.journal) + 1}
        self.journal.append(event)
        if self.attached is not None:
            self.attached.tell(**event)

    def lost(self, line: Line) -> None:
        if self.attached is line:
            self.attached = None

    def take(self, line: Line, frame: dict[str, Any]) -> None:
        if frame["type"] == "session.resume":
            self._resume(line, frame)
        elif line is self.attached:
            self.presented = None
            self._command(frame)
        elif self.generation == 0:
            self._open(line, frame)

    def _open(self, line: Line, frame: dict[str, Any]) -> None:
        self.generation, self.attached = 1, line
        line.tell(**self._announcement("session.created"))
        self._command(frame)

    def _resume(self, line: Line, frame: dict[str, Any]) -> None:
        token = frame["resume_token"]
        recovering = token == self.presented and self.attached is None
        if token != self.token and not recovering:
            error = {"type": "x", "code": "invalid_resume_token", "message": "no"}
            line.tell(type="error", error=error)
            return
        self.generation += 1
        self.presented, self.attached = token, line
        line.tell(**self._announcement("session.resumed"))
        # A server that repeats itself is within its rights.
        known = max(0, frame["last_received_server_event_seq"] - line.world.rng.randrange(3))
        for event in self.journal[known:]:
            line.tell(**event)

    def _announcement(self, kind: str) -> dict[str, Any]:
        return {
            "type": kind,
            "session_id": "s",
            "session": {"id": "s"},
            "resume_token": self.token,
            "attachment_generation": self.generation,
        }

    def _command(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "session.update":
                self.emit(type="session.updated", session={"id": "s"})
            case "conversation.item.delete":
                self.handled.append(frame["event_id"])
                self.emit(type="conversation.item.deleted", item_id=frame["item_id"])
            case "input_audio_buffer.clear":
                self.handled.append(frame["event_id"])
                self.emit(type="input_audio_buffer.cleared")
            case "turn.signal":
                self.emit(type="turn.event", event=frame["event"], turn_state="idle")
            case "session.heartbeat":
                self.emit(type="session.heartbeat_ack", session_id="s")
            case "session.close":
                self.emit(type="session.closed", session_id="s", epoch=0, reason="client_close")
            case _:
                pass


class World:
    """One network, one session, one client; what happens is drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.session = Session()
        self.lines: list[Line] = []
        self.reachable = True
        self.kind = True
        self.said = 0

    async def connect(self, url: str, headers: Mapping[str, str]) -> Socket:
        del url, headers
        await asyncio.sleep(DELAY_S)
        if not self.reachable:
            raise ClientConnectionError("unreachable")
        line = Line(self)
        self.lines.append(line)
        if not self.kind and self.rng.random() < 0.3:
            # Dies in the middle of the exchange, or of the replay.
            asyncio.get_running_loop().call_later(self.rng.random() * 0.1, line.cut)
        return line

    async def strike(self) -> None:
        """Something that networks do."""
        line = self.lines[-1]
        match self.rng.randrange(4):
            case 0:
                line.cut()
            case 1:
                line.mute = True
            case 2:
                line.cut()
                self.reachable = False
                await asyncio.sleep(self.rng.random() * 5)
                self.reachable = True
            case _:
                await asyncio.sleep(self.rng.random() * 3)

    def say(self) -> None:
        self.said += 1
        self.session.emit(
            type="input_audio_buffer.speech_stopped", audio_end_ms=self.said, item_id="i"
        )


async def run(seed: int) -> None:
    world = World(seed)
    client = DuplexClient(
        "ws://there",
        socket_factory=world.connect,
        heartbeat_s=4,
        heartbeat_timeout_s=2,
        reconnect=Reconnect(attempt_timeout_s=3, give_up_s=600),
    )
    await client.open()
    events = client.events(size=100_000)
    world.kind = False
    receipts: list[Receipt[Any]] = []
    sends: list[asyncio.Task[Receipt[Any]]] = []
    for step in range(STEPS):
        for _ in range(world.rng.randrange(3)):
            world.say()
        if world.rng.random() < 0.5:
            command = (
                client.clear_input()
                if world.rng.random() < 0.5
                else client.delete_item(f"item_{step}")
            )
            sends.append(asyncio.create_task(command))
        if world.rng.random() < 0.25:
            await world.strike()
        await asyncio.sleep(world.rng.random() * 0.2)
    world.kind = True
    receipts = await asyncio.gather(*sends)
    await asyncio.sleep(60)
    await check_receipts(receipts, world.session)
    await client.close()
    heard = [event async for event in events]
    assert [e.audio_end_ms for e in heard if isinstance(e, SpeechStopped)] == [
        *range(1, world.said + 1)
    ]
    deleted = [event.item_id for event in heard if isinstance(event, ItemDeleted)]
    assert len(deleted) == len(set(deleted))
    with pytest.raises(ClientSessionClosedError):
        await client.clear_input()
    assert all(line.closed for line in world.lines)


async def check_receipts(receipts: list[Receipt[Any]], session: Session) -> None:
    """What is confirmed was carried out; what is in doubt was not; nothing was done twice."""
    assert len(set(session.handled)) == len(session.handled)
    for receipt in receipts:
        assert receipt.settled
        try:
            await receipt.acknowledged()
            confirmed = True
        except ClientConnectionError:
            confirmed = False
        assert confirmed == (receipt.event_id in session.handled)


@pytest.mark.timeout(300)
def test_nothing_is_lost_and_nothing_comes_twice_on_any_network(
    in_virtual_time: Callable[[Any], Any],
) -> None:
    first = random.randrange(2**32)
    for seed in range(first, first + SEEDS):
        try:
            in_virtual_time(lambda seed=seed: run(seed))
        except BaseException:
            print(f"seed {seed}")
            raise
