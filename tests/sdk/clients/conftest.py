"""A server that says what a test tells it, and a loop whose clock runs only when it is idle."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
import pytest
from duplex_sdk.clients import ClientConnectionError, DuplexClient, Socket
from duplex_sdk.clients.errors import ClientError

T = TypeVar("T")


class ScriptedSocket(Socket):
    """Keeps what the client sent; plays back what the test queued."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.url = ""
        self.headers: Mapping[str, str] = {}
        self.closed = False
        self.takes_nothing = False
        self._gone = asyncio.Event()
        self._incoming: asyncio.Queue[str | bytes | ClientError] = asyncio.Queue()

    async def open(self, url: str, headers: Mapping[str, str]) -> Socket:
        self.url, self.headers = url, headers
        return self

    async def send(self, frame: str) -> None:
        if self.takes_nothing:
            await self._gone.wait()
        if self.closed:
            raise ClientConnectionError("gone")
        self.sent.append(msgspec.json.decode(frame))

    async def recv(self) -> str | bytes:
        frame = await self._incoming.get()
        if isinstance(frame, ClientError):
            raise frame
        return frame

    async def close(self) -> None:
        self.closed = True
        self._gone.set()
        self._incoming.put_nowait(ClientConnectionError("closed here"))

    def says(self, kind: str, **fields: Any) -> None:
        payload = {"type": kind, "event_id": "event_x", **fields}
        self._incoming.put_nowait(msgspec.json.encode(payload).decode())

    def says_raw(self, frame: str | bytes) -> None:
        self._incoming.put_nowait(frame)

    def breaks(self, error: ClientError) -> None:
        self._incoming.put_nowait(error)

    def says_created(self, **capabilities: Any) -> None:
        self.says("session.created", session={"id": "duplex-1", "capabilities": capabilities})

    def says_resumable(self, token: str = "TOKEN-1") -> None:
        session = {"id": "duplex-1", "capabilities": {}}
        self.says("session.created", session=session, resume_token=token, attachment_generation=1)

    def says_resumed(
        self, token: str = "TOKEN-2", generation: int = 2, newest: int | None = None
    ) -> None:
        said = {} if newest is None else {"newest_server_event_seq": newest}
        self.says(
            "session.resumed",
            session_id="duplex-1",
            session={"id": "duplex-1", "capabilities": {}},
            resume_token=token,
            attachment_generation=generation,
            **said,
        )

    def says_error(self, code: str, event_id: str | None = None) -> None:
        error = {"type": "invalid_request_error", "code": code, "message": "no"}
        self.says("error", error=error | ({"event_id": event_id} if event_id else {}))

    def sent_of(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.sent if frame["type"] == kind]

    def sent_types(self) -> list[str]:
        return [str(frame["type"]) for frame in self.sent]


class ScriptedServer:
    """Opens a scripted socket per connection; some connections it refuses."""

    def __init__(self) -> None:
        self.sockets: list[ScriptedSocket] = []
        self.tried: list[str] = []
        self.refusals: deque[ClientError] = deque()
        self._opened = asyncio.Event()

    async def open(self, url: str, headers: Mapping[str, str]) -> Socket:
        self.tried.append(url)
        if self.refusals:
            raise self.refusals.popleft()
        socket = ScriptedSocket()
        self.sockets.append(socket)
        self._opened.set()
        return await socket.open(url, headers)

    async def connection(self, number: int) -> ScriptedSocket:
        while len(self.sockets) < number:
            self._opened.clear()
            await self._opened.wait()
        return self.sockets[number - 1]


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time stands still while there is something to do, and leaps to the next timer otherwise."""

    _ready: list[Any]
    _scheduled: list[Any]
    _timer_cancelled_count: int

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        # The loop itself would wait, in real time, for what comes after a cancelled timer.
        while self._scheduled and self._scheduled[0].cancelled():
            self._timer_cancelled_count -= 1
            heapq.heappop(self._scheduled)._scheduled = False
        if not self._ready and self._scheduled:
            self._now = max(self._now, self._scheduled[0].when())
        super()._run_once()  # type: ignore[misc]


@pytest.fixture
def socket() -> ScriptedSocket:
    return ScriptedSocket()


@pytest.fixture
def scripted_server() -> ScriptedServer:
    return ScriptedServer()


@pytest.fixture
def client(socket: ScriptedSocket) -> DuplexClient:
    return DuplexClient("ws://there", socket_factory=socket.open, heartbeat_s=None)


@pytest.fixture
def in_virtual_time() -> Callable[[Callable[[], Awaitable[T]]], T]:
    def run(main: Callable[[], Awaitable[T]]) -> T:
        async def body() -> T:
            return await main()

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(body())

    return run
