"""A connection's tasks, cancelled at every place where they wait: every lease finds its owner.

One connection speaks, commits, interrupts, is resumed by another, and closes. It is lived again and
again, and each time another wait of it is the last one: of its handler, as when a server goes away,
or of its reader, as when its client is silent for too long.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.testing.cancel_points import CancelPoint, Moment, Swept, cancelled_at
from duplex_sdk.testing.session_lab import tone
from duplex_server.entrypoints import DuplexOmni
from duplex_server.serving import (
    ConnectionEnvelope,
    DuplexApp,
    OmniDuplexSessionHandler,
    RealtimeSocket,
    ServingOptions,
    SocketGone,
)
from duplex_server.testing import Harness
from patience import PATIENCE_S, eventually
from starlette.responses import Response

Frame = dict[str, Any]
SPEECH = base64.b64encode(tone(200, 16_000)).decode()
SCRIPT = {
    "turns": "commit",
    "pace": "realtime",
    "answers": [{"text": "one two", "ms": 2_000, "delay_ms": 0}],
}
TALK: tuple[Frame, ...] = (
    {"type": "input_audio_buffer.append", "audio": SPEECH},
    {"type": "input_audio_buffer.commit"},
    {"type": "response.create"},
    {"type": "session.heartbeat"},
    {"type": "no.such.command"},
    {"type": "response.cancel"},
    {"type": "session.heartbeat"},
)
"""The refused one is answered by the connection itself."""


async def a_moment() -> None:
    """Wait for something that comes at once."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.call_soon(_arrive, future)
    await future


def _arrive(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Line(RealtimeSocket):
    """A socket whose client says one frame after the other; each call of the server's waits once.

    Attributes:
        told: what the client was sent.
    """

    def __init__(self, *frames: Frame) -> None:
        self.told: list[Frame] = []
        self._frames = [msgspec.json.encode(frame).decode() for frame in frames]
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def accept(self) -> None:
        await a_moment()

    async def refuse(self, response: Response) -> None:
        raise AssertionError("the upgrade was refused")

    async def receive(self) -> str | bytes:
        await a_moment()
        if self._frames:
            return self._frames.pop(0)
        await asyncio.shield(self._gone)
        raise SocketGone

    async def send(self, text: str) -> None:
        await a_moment()
        if self._gone.done():
            raise SocketGone
        self.told.append(msgspec.json.decode(text))

    async def close(self, code: int, reason: str = "") -> None:
        self.hang_up()
        await a_moment()

    def hang_up(self) -> None:
        _arrive(self._gone)

    async def hears(self, kind: str, server: asyncio.Task[Any], count: int = 1) -> None:
        """Wait for so many events of a kind, or for the end of the server's side."""
        await eventually(lambda: len(self.kinds(kind)) >= count or server.done())

    def kinds(self, kind: str) -> list[Frame]:
        return [frame for frame in self.told if frame["type"] == kind]

    @property
    def numbers(self) -> list[int]:
        return [frame["server_event_seq"] for frame in self.told if "server_event_seq" in frame]


class Place:
    """A server's connections without its sockets."""

    def __init__(self, omni: DuplexOmni) -> None:
        self.omni = omni
        self.app = DuplexApp(omni, ServingOptions())
        self._handler: OmniDuplexSessionHandler = self.app._realtime

    def connection(self, line: Line) -> Coroutine[Any, Any, None]:
        return self._handler.handle(line, ConnectionEnvelope(duplex=True, autostart=False))

    async def until(self, condition: Callable[[], Any]) -> None:
        await eventually(condition)

    async def session_of(self, *lines: Line) -> str | None:
        """The session that a client learned of, if it has not ended."""
        ids = [each["session"]["id"] for line in lines for each in line.told if "session" in each]
        if not ids or self.omni.get_session(ids[0]) is None:
            return None
        return str(ids[0])

    async def settled(self, session_id: str) -> bool:
        """Wait until everything that was begun is through.

        Then nobody is attached exactly if the engine counts the session as detached.

        Returns:
            Whether the session lives.
        """

        def through() -> bool:
            served = self.app.registry.get(session_id)
            if served is None:
                return True
            if served.pending or served._work or self.omni._settling or served.handle.closed:
                return False
            attached = served.delivery.attachment is not None
            return self.omni.health().detached_sessions == (not attached)

        await self.until(through)
        return self.app.registry.get(session_id) is not None

    async def come_back(self, session_id: str, *lines: Line) -> Line:
        """A client that has all that it was sent takes its session, and ends it."""
        seen = max([0, *(number for line in lines for number in line.numbers)])
        tokens = [each["resume_token"] for line in lines for each in line.told[:1]]
        for token in reversed(tokens):
            line = Line(resume(session_id, token, seen), {"type": "session.close"})
            task = asyncio.create_task(self.connection(line))
            await line.hears("session.resumed", task)
            if line.told[0]["type"] == "session.resumed":
                await asyncio.wait_for(task, PATIENCE_S)
                return line
            assert line.told[0]["error"]["code"] == "invalid_resume_token"
            await asyncio.wait_for(task, PATIENCE_S)
        raise AssertionError("no token opens the session")

    async def assert_empty(self) -> None:
        await self.until(
            lambda: (
                self.omni.health().slots_used == 0
                and not self.omni.sessions
                and not self.app.registry._sessions
            )
        )


def resume(session_id: str, token: str, seen: int) -> Frame:
    return {
        "type": "session.resume",
        "session_id": session_id,
        "resume_token": token,
        "last_received_server_event_seq": seen,
    }


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    limits = DuplexSessionRuntimeConfig(max_sessions=1, reaper_interval_s=0.01)
    async with Harness().engine("scripted", {"script": SCRIPT}, limits=limits) as omni:
        yield Place(omni)


def assert_whole(*lines: Line) -> None:
    """What the client was sent over all its sockets: each number once, in order."""
    numbers = [number for line in lines for number in line.numbers]
    assert numbers == [*range(1, len(numbers) + 1)]
    assert lines[-1].told[-1]["type"] in ("session.closed", "session.resumed")


async def ended(place: Place, *lines: Line) -> None:
    """Whatever became of a session, its client can come back to it and end it."""
    session_id = await place.session_of(*lines)
    if session_id is not None and await place.settled(session_id):
        assert_whole(*lines, await place.come_back(session_id, *lines))
    await place.assert_empty()


@pytest.mark.parametrize("moment", Moment)
async def test_a_handler_cancelled_anywhere(place: Place, moment: Moment) -> None:
    """Open, append, commit, cancel and close, and the end of each on its own."""
    place_number, swept = 0, None
    while swept is None or swept.reached:
        place_number += 1
        line = Line({"type": "session.update", "session": {}}, *TALK)
        work = asyncio.create_task(cancelled_at(place.connection(line), place_number, moment))
        # It waits for the end of its reader at last; that is a place too.
        await line.hears("error", work)
        await line.hears("response.done", work)
        line.hang_up()
        swept = await asyncio.wait_for(work, PATIENCE_S)
        await ended(place, line)
    assert place_number > 3


@pytest.mark.parametrize("moment", Moment)
async def test_a_reader_cancelled_anywhere(place: Place, moment: Moment) -> None:
    """As by the watch over silent clients: while a frame is awaited, taken, or answered."""
    loop = asyncio.get_running_loop()
    number, reached = 0, True
    while reached:
        number += 1
        point = CancelPoint(number, moment)

        def make(
            loop: asyncio.AbstractEventLoop, work: Any, point: CancelPoint = point, **rest: Any
        ) -> asyncio.Task[Any]:
            reads = work.__qualname__.endswith("Handler._read")
            return asyncio.Task(point.watching(work) if reads else work, loop=loop, **rest)

        line = Line({"type": "session.update", "session": {}}, *TALK)
        loop.set_task_factory(make)
        try:
            task = asyncio.create_task(place.connection(line))
            await line.hears("session.heartbeat_ack", task, 2)
        finally:
            loop.set_task_factory(None)
        line.hang_up()
        await asyncio.wait_for(task, PATIENCE_S)
        await ended(place, line)
        reached = point.reached
    assert number > len(TALK) + 2


@pytest.mark.parametrize("moment", Moment)
@pytest.mark.parametrize("attached", [True, False])
async def test_a_resume_cancelled_anywhere(place: Place, moment: Moment, attached: bool) -> None:
    """A takeover, and a resume of a session that nobody holds; during the replay as well."""
    number = 0
    swept: Swept[None] | None = None
    while swept is None or swept.reached:
        number += 1
        first = Line({"type": "session.update", "session": {}}, *TALK)
        serving = asyncio.create_task(place.connection(first))
        await first.hears("response.done", serving)
        session_id = await place.session_of(first)
        assert session_id is not None
        if not attached:
            first.hang_up()
            await asyncio.wait_for(serving, PATIENCE_S)
            assert await place.settled(session_id)
        again = Line(resume(session_id, first.told[0]["resume_token"], 1))
        work = asyncio.create_task(cancelled_at(place.connection(again), number, moment))
        await again.hears("response.done", work)
        again.hang_up()
        swept = await asyncio.wait_for(work, PATIENCE_S)
        first.hang_up()
        await asyncio.wait_for(serving, PATIENCE_S)
        assert await place.settled(session_id)
        last = await place.come_back(session_id, first, again)
        await place.assert_empty()
        seen = {*first.numbers, *again.numbers, *last.numbers}
        assert seen == {*range(1, max(seen) + 1)}
        for line in (first, again, last):
            assert line.numbers == sorted(set(line.numbers))
    assert number > 5
