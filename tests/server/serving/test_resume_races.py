"""Resumes that cross each other, sockets that break half-way: every lease has one owner.

The engine is real; its thread is held still where a caller must be cancelled while it decides.
Sockets are test doubles whose two halves break apart from each other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_server.entrypoints import DuplexOmni
from duplex_server.serving import (
    ConnectionEnvelope,
    DuplexApp,
    OmniDuplexSessionHandler,
    RealtimeSocket,
    ServingOptions,
    SocketGone,
    attachment,
)
from duplex_server.serving.attachments import ServedSession
from duplex_server.testing import Harness
from patience import PATIENCE_S, eventually
from starlette.responses import Response

Frame = dict[str, Any]


async def until(condition: Callable[[], bool]) -> None:
    await eventually(condition)


class FakeSocket(RealtimeSocket):
    """Frames in and out by hand; sending can be held at a frame, or break."""

    def __init__(self) -> None:
        self.sent: list[Frame] = []
        self.closed_with: tuple[int, str] | None = None
        self.holds: Callable[[Frame], bool] = lambda _: False
        self.held = asyncio.Event()
        self._let_go = asyncio.Event()
        self._broken = False
        self._inbox: asyncio.Queue[str | None] = asyncio.Queue()

    async def accept(self) -> None:
        pass

    async def refuse(self, response: Response) -> None:
        raise AssertionError("the upgrade was refused")

    async def receive(self) -> str | bytes:
        frame = await self._inbox.get()
        if frame is None:
            raise SocketGone
        return frame

    async def send(self, text: str) -> None:
        if self._broken:
            raise SocketGone
        frame = msgspec.json.decode(text)
        if self.holds(frame):
            self.held.set()
            await self._let_go.wait()
            if self._broken:
                raise SocketGone
        self.sent.append(frame)

    async def close(self, code: int, reason: str = "") -> None:
        if self.closed_with is None:
            self.closed_with = (code, reason)
        self._inbox.put_nowait(None)

    # The client's hands

    def say(self, kind: str, **fields: Any) -> None:
        self._inbox.put_nowait(msgspec.json.encode({"type": kind, **fields}).decode())

    def hold_at(self, kind: str) -> None:
        self.holds = lambda frame: frame["type"] == kind

    def let_go(self) -> None:
        self.holds = lambda _: False
        self._let_go.set()

    def break_sending(self) -> None:
        self._broken = True
        self._let_go.set()

    def vanish(self) -> None:
        self.break_sending()
        self._inbox.put_nowait(None)

    async def got(self, kind: str, count: int = 1) -> Frame:
        await until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]

    def of(self, kind: str) -> list[Frame]:
        return [frame for frame in self.sent if frame["type"] == kind]

    @property
    def seqs(self) -> list[int]:
        return [frame["server_event_seq"] for frame in self.sent if "server_event_seq" in frame]

    @property
    def token(self) -> str:
        announced = [frame for frame in self.sent if "resume_token" in frame]
        return str(announced[-1]["resume_token"])


class Place:
    """One session on one engine, and the sockets that come for it."""

    def __init__(self, omni: DuplexOmni) -> None:
        self.omni = omni
        self.app = DuplexApp(omni, ServingOptions())
        self._handler: OmniDuplexSessionHandler = self.app._realtime
        self.tasks: list[asyncio.Task[None]] = []
        self.session_id = ""

    def enter(self, socket: FakeSocket) -> asyncio.Task[None]:
        envelope = ConnectionEnvelope(duplex=True, autostart=False)
        self.tasks.append(asyncio.create_task(self._handler.handle(socket, envelope)))
        return self.tasks[-1]

    async def first(self) -> tuple[FakeSocket, asyncio.Task[None]]:
        socket = FakeSocket()
        socket.say("session.update", session={})
        task = self.enter(socket)
        await socket.got("session.updated")
        self.session_id = socket.sent[0]["session"]["id"]
        return socket, task

    def resume(
        self, token: str, seq: int = 0, socket: FakeSocket | None = None
    ) -> tuple[FakeSocket, asyncio.Task[None]]:
        socket = socket or FakeSocket()
        socket.say(
            "session.resume",
            session_id=self.session_id,
            resume_token=token,
            last_received_server_event_seq=seq,
        )
        return socket, self.enter(socket)

    @property
    def served(self) -> ServedSession:
        served = self.app.registry.get(self.session_id)
        assert served is not None
        return served

    @property
    def owner(self) -> tuple[int, int | None] | None:
        """Attachment and lease generation of the socket that serves."""
        attachment = self.served.delivery.attachment
        return attachment and (attachment.generation, attachment.lease_generation)

    async def lease_landed(self, waiting: int, generation: int) -> None:
        """So many resumes are under way, and one holds this lease generation."""
        await until(
            lambda: (
                len(self.served.pending) == waiting
                and generation in [each.lease_generation for each in self.served.pending]
            )
        )

    async def detached(self) -> bool:
        """Whether the engine counts the session as detached, once it has done what was asked."""
        await asyncio.sleep(0)
        await self.omni.touch_session(self.session_id, "heartbeat")
        return self.omni.health().detached_sessions == 1

    @contextmanager
    def engine_held(self) -> Iterator[None]:
        """The engine's thread stands still inside the block."""
        held, release = threading.Event(), threading.Event()

        def hold() -> None:
            held.set()
            release.wait(PATIENCE_S)

        loop = self.omni.engine._loop
        assert loop is not None
        loop.call_soon_threadsafe(hold)
        assert held.wait(PATIENCE_S)
        try:
            yield
        finally:
            release.set()


async def cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def a_place() -> AsyncIterator[Place]:
    script = {
        "turns": "commit",
        "pace": "burst",
        "answers": [{"text": "one two", "ms": 160, "delay_ms": 0}],
    }
    limits = DuplexSessionRuntimeConfig(max_sessions=1, disconnect_grace_s=30)
    async with Harness().engine("scripted", {"script": script}, limits=limits) as omni:
        place = Place(omni)
        try:
            yield place
        finally:
            await place.app.close_sessions(5)
            await asyncio.gather(*(cancel(task) for task in place.tasks))
    assert omni.sessions == {}


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with a_place() as one:
        yield one


async def gone(place: Place, socket: FakeSocket, task: asyncio.Task[None]) -> None:
    """The client of this socket loses its network, and the server notices."""
    socket.vanish()
    await task
    assert await place.detached()


async def abandon_mid_rpc(place: Place, token: str) -> None:
    """A resume whose caller is cancelled while the engine decides; it lands all the same."""
    before = place.served.handle.lease_generation
    with place.engine_held():
        waiting = len(place.served.pending)
        _, task = place.resume(token)
        await until(lambda: len(place.served.pending) == waiting + 1)
        await cancel(task)
    await until(lambda: place.served.handle.lease_generation == before + 1)


async def test_resume_cancelled_during_replay_leaves_the_session_in_its_grace(
    place: Place,
) -> None:
    first, task = await place.first()
    await gone(place, first, task)
    for _ in range(2):
        socket = FakeSocket()
        socket.hold_at("session.updated")
        _, resuming = place.resume(first.token, socket=socket)
        await socket.held.wait()
        assert not await place.detached()
        await cancel(resuming)
        assert place.owner is None
        assert await place.detached()
    back, _ = place.resume(first.token)
    await back.got("session.updated")
    assert not await place.detached()
    assert back.seqs == [1]


async def test_takeover_cancelled_while_the_former_socket_is_told_is_detached(
    place: Place,
) -> None:
    first, _ = await place.first()
    first.hold_at("session.replaced")
    second, task = place.resume(first.token)
    await first.held.wait()
    await cancel(task)
    assert place.owner is None
    assert await place.detached()
    first.let_go()
    await until(lambda: first.closed_with is not None)
    assert first.closed_with == (1000, "session_replaced")
    back, _ = place.resume(second.token, 1)
    await back.got("session.resumed")
    assert not await place.detached()


async def test_a_late_cancel_of_a_replaced_socket_detaches_nothing(place: Place) -> None:
    first, task = await place.first()
    await gone(place, first, task)
    a, a_task = place.resume(first.token)
    await a.got("session.updated")
    a.hold_at("session.heartbeat_ack")
    a.say("session.heartbeat")
    await a.held.wait()
    b, b_task = place.resume(a.token, 1)
    await place.lease_landed(1, 2)
    await cancel(a_task)
    a.vanish()
    await b.got("session.heartbeat_ack")
    assert place.owner == (3, 2)
    assert not await place.detached()
    await gone(place, b, b_task)


async def test_takeover_abandoned_half_way_leaves_its_lease_to_the_live_socket(
    place: Place,
) -> None:
    first, task = await place.first()
    await abandon_mid_rpc(place, first.token)
    assert place.owner == (1, 1)
    first.say("session.heartbeat")
    await first.got("session.heartbeat_ack")
    assert not await place.detached()
    await gone(place, first, task)
    back, _ = place.resume(first.token, 2)
    await back.got("session.resumed")
    assert place.owner == (2, 2)


async def test_resume_abandoned_half_way_with_nobody_there_is_detached_again(
    place: Place,
) -> None:
    first, task = await place.first()
    await gone(place, first, task)
    await abandon_mid_rpc(place, first.token)
    async with asyncio.timeout(PATIENCE_S):
        while not await place.detached():  # noqa: ASYNC110 - another thread's doing
            await asyncio.sleep(0.005)
    back, _ = place.resume(first.token, 1)
    await back.got("session.resumed")
    assert place.owner == (2, 2)


async def test_a_send_that_fails_while_a_successor_waits_harms_only_its_own_lease(
    place: Place,
) -> None:
    a, _ = await place.first()
    a.hold_at("session.heartbeat_ack")
    a.say("session.heartbeat")
    await a.held.wait()
    b, b_task = place.resume(a.token, 1)
    await place.lease_landed(1, 1)
    a.break_sending()
    await b.got("session.heartbeat_ack")
    assert place.owner == (2, 1)
    assert not await place.detached()
    assert b.seqs == [2]
    await gone(place, b, b_task)


async def test_a_waiting_resume_absorbs_the_lease_of_an_abandoned_one(place: Place) -> None:
    a, _ = await place.first()
    a.hold_at("session.heartbeat_ack")
    a.say("session.heartbeat")
    await a.held.wait()
    b, b_task = place.resume(a.token, 2)
    del b_task
    await place.lease_landed(1, 1)
    await abandon_mid_rpc(place, a.token)
    await place.lease_landed(1, 2)
    a.let_go()
    await b.got("session.resumed")
    assert place.owner == (2, 2)
    assert not await place.detached()
    await gone(place, b, place.tasks[1])


async def test_of_two_resumes_that_both_have_a_lease_the_first_to_serve_gets_both(
    place: Place,
) -> None:
    a, _ = await place.first()
    a.hold_at("session.heartbeat_ack")
    a.say("session.heartbeat")
    await a.held.wait()
    b, b_task = place.resume(a.token, 2)
    await place.lease_landed(1, 1)
    c, c_task = place.resume(a.token, 2)
    await place.lease_landed(2, 2)
    a.let_go()
    await c_task
    assert [frame["type"] for frame in c.sent] == ["error"]
    assert c.sent[0]["error"]["code"] == "invalid_resume_token"
    assert place.owner == (2, 2)
    b.say("session.heartbeat")
    await b.got("session.heartbeat_ack")
    await gone(place, b, b_task)


async def test_a_replay_cancelled_after_it_was_handed_a_newer_lease_detaches_that_one(
    place: Place,
) -> None:
    first, task = await place.first()
    await gone(place, first, task)
    a = FakeSocket()
    a.hold_at("session.updated")
    _, a_task = place.resume(first.token, socket=a)
    await a.held.wait()
    await abandon_mid_rpc(place, a.token)
    assert place.owner == (2, 2)
    await cancel(a_task)
    assert await place.detached()
    back, _ = place.resume(first.token)
    await back.got("session.updated")
    assert place.owner == (3, 3)


async def test_a_dead_socket_delays_its_successor_by_a_second_at_most(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert attachment._FAREWELL_S == 1.0
    monkeypatch.setattr(attachment, "_STALLED_SEND_S", 10 * PATIENCE_S)
    a, _ = await place.first()
    a.hold_at("session.heartbeat_ack")
    a.say("session.heartbeat")
    await a.held.wait()
    b, _ = place.resume(a.token, 1)
    async with asyncio.timeout(PATIENCE_S):
        await b.got("session.heartbeat_ack")
    assert (b.sent[0]["type"], b.seqs) == ("session.resumed", [2])


async def test_a_resume_that_failed_leaves_the_live_socket_its_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachment, "_FAREWELL_S", 0.05)
    a, _ = await place.first()
    a.hold_at("session.heartbeat_ack")
    a.say("session.heartbeat")
    await a.held.wait()
    _, waiting = place.resume(a.token, 1)
    await place.lease_landed(1, 1)
    await cancel(waiting)
    await asyncio.sleep(0.1)
    a.let_go()
    await a.got("session.heartbeat_ack")
    assert place.owner == (1, 1)


async def test_frames_of_a_replaced_socket_reach_nobody(place: Place) -> None:
    a, a_task = await place.first()
    a.hold_at("session.replaced")
    b, _ = place.resume(a.token, 1)
    await b.got("session.resumed")
    await a.held.wait()
    for _ in range(3):
        a.say("session.close")
        a.say("session.heartbeat")
    await asyncio.sleep(0.02)
    a.let_go()
    await a_task
    b.say("session.heartbeat")
    await b.got("session.heartbeat_ack")
    assert b.seqs == [2]
    assert a.sent[-1]["type"] == "session.replaced"
    assert not await place.detached()


async def test_the_old_token_dies_with_the_first_frame_of_the_new_socket(place: Place) -> None:
    first, task = await place.first()
    await gone(place, first, task)
    second, second_task = place.resume(first.token)
    await second.got("session.updated")
    second.say("no.such.command")
    await second.got("error")
    await gone(place, second, second_task)
    third, third_task = place.resume(first.token)
    await third_task
    assert third.sent[0]["error"]["code"] == "invalid_resume_token"
    assert await place.detached()


@pytest.mark.parametrize("frames", range(6))
async def test_a_socket_that_breaks_at_any_frame_of_the_replay_loses_nothing(
    place: Place, frames: int
) -> None:
    first, task = await place.first()
    for count in range(1, 5):
        first.say("session.heartbeat")
        await first.got("session.heartbeat_ack", count)
    await gone(place, first, task)

    class Fragile(FakeSocket):
        async def send(self, text: str) -> None:
            if len(self.sent) == frames:
                self.vanish()
            await super().send(text)

    fragile, fragile_task = place.resume(first.token, 1, Fragile())
    await fragile_task if frames < 5 else await fragile.got("session.heartbeat_ack", 4)
    if frames == 5:
        fragile.vanish()
        await fragile_task
    assert await place.detached()
    seen = [1, *fragile.seqs]
    token = fragile.token if fragile.sent else first.token
    back, _ = place.resume(token, seen[-1])
    await back.got("session.resumed")
    back.say("session.heartbeat")
    await until(lambda: back.seqs[-1:] == [6])
    assert seen + back.seqs == [1, 2, 3, 4, 5, 6]
