"""The client over a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from .base import DuplexClientBase
from .errors import ClientConnectionError, ClientError, ClientSessionClosedError
from .streams import DEFAULT_STREAM_SIZE

__all__ = ["DuplexClient", "Socket", "WebSocket", "session_url"]

MAX_FRAME_BYTES = 16 * 2**20
HEARTBEAT_INTERVAL_S = 30.0
_FRAME = msgspec.json.Decoder(dict[str, Any])


class Socket(ABC):
    """The seam under the client: text frames both ways. Its methods belong to one loop."""

    @abstractmethod
    async def send(self, frame: str) -> None:
        """Send one text frame.

        Raises:
            ClientConnectionError: the connection is gone.
        """

    @abstractmethod
    async def recv(self) -> str | bytes:
        """Return the next frame.

        Raises:
            ClientSessionClosedError: the peer closed normally.
            ClientConnectionError: the connection was lost.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close; idempotent, never raises."""


class WebSocket(Socket):
    """A socket of the ``websockets`` library."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, url: str, headers: Mapping[str, str]) -> WebSocket:
        """Open a connection.

        Raises:
            ClientConnectionError: refused (``status`` says how) or not reachable.
        """
        try:
            # Deflate costs 45 us a delta for a fifth of the bytes; the pings are the library's.
            connection = await connect(
                url,
                additional_headers=dict(headers),
                compression=None,
                max_size=MAX_FRAME_BYTES,
                subprotocols=None,
            )
        except InvalidStatus as error:
            raise _refused(error) from error
        except (OSError, TimeoutError, WebSocketException) as error:
            raise ClientConnectionError(
                f"no connection to {_without_query(url)}: {error}",
                hint="is the server running? `duplex serve` starts one",
            ) from error
        return cls(connection)

    async def send(self, frame: str) -> None:
        """Send one text frame."""
        try:
            await self._connection.send(frame)
        except ConnectionClosed as error:
            raise _lost(error) from error

    async def recv(self) -> str | bytes:
        """Return the next frame."""
        try:
            return await self._connection.recv()
        except ConnectionClosed as error:
            raise _lost(error) from error

    async def close(self) -> None:
        """Close with 1000."""
        with contextlib.suppress(WebSocketException, OSError):
            await self._connection.close()


SocketFactory = Callable[[str, Mapping[str, str]], Awaitable[Socket]]


class DuplexClient(DuplexClientBase):
    """A session over a WebSocket, in the server's ``duplex`` profile.

    It acknowledges numbered events once all listeners have them, passes over numbers it has seen,
    and keeps the session alive while the caller is silent.

    Args:
        url: of the server; an empty path becomes ``/v1/realtime``.
        session: as ``DuplexClientBase``.
        api_key: sent as a bearer token; by default the environment's ``DUPLEX_API_KEY``.
        model: name of the model to talk to; None for the one served.
        duplex: False speaks to the ``openai`` profile, as a stock client would.
        heartbeat_s: silence after which a heartbeat is sent; None for never.
        open_timeout_s: as ``DuplexClientBase``.
        queue_size: as ``DuplexClientBase``.
        socket_factory: opens the socket; for tests.
    """

    def __init__(
        self,
        url: str,
        session: Mapping[str, Any] | None = None,
        *,
        api_key: str | None = None,
        model: str | None = None,
        duplex: bool = True,
        heartbeat_s: float | None = HEARTBEAT_INTERVAL_S,
        open_timeout_s: float = 30.0,
        queue_size: int = DEFAULT_STREAM_SIZE,
        socket_factory: SocketFactory = WebSocket.connect,
    ) -> None:
        super().__init__(session, open_timeout_s=open_timeout_s, queue_size=queue_size)
        self._url = session_url(url, model=model, duplex=duplex)
        self._api_key = api_key or os.environ.get("DUPLEX_API_KEY")
        self._duplex = duplex
        self._heartbeat_s = heartbeat_s if duplex else None
        self._socket_factory = socket_factory
        self._socket: Socket | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._last_seq = 0
        self._ack_due = asyncio.Event()
        self._last_sent = 0.0

    async def _open(self) -> None:
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        self._socket = await self._socket_factory(self._url, headers)
        self._tasks.append(asyncio.create_task(self._read(self._socket)))
        if self._duplex:
            self._tasks.append(asyncio.create_task(self._acknowledge()))
        if self._heartbeat_s is not None:
            self._tasks.append(asyncio.create_task(self._stay_alive(self._heartbeat_s)))

    async def _send_command(self, payload: dict[str, Any]) -> None:
        if self._socket is None:
            raise ClientConnectionError("the client is not connected")
        self._last_sent = asyncio.get_running_loop().time()
        await self._socket.send(msgspec.json.encode(payload).decode())

    async def _teardown(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, socket: Socket) -> None:
        try:
            while True:
                self._take(await socket.recv())
        except ClientError as error:
            self._connection_lost(error)

    def _take(self, frame: str | bytes) -> None:
        try:
            payload = _FRAME.decode(frame)
        except msgspec.DecodeError:
            self.skipped_frames += 1
            return
        seq = payload.get("server_event_seq")
        if not isinstance(seq, int):
            self._dispatch(payload)
        elif seq > self._last_seq:
            self._dispatch(payload)
            self._last_seq = seq
            self._ack_due.set()

    async def _acknowledge(self) -> None:
        # One cumulative acknowledgement for all that arrived meanwhile.
        while True:
            await self._ack_due.wait()
            self._ack_due.clear()
            ack = {"type": "session.event_ack", "server_event_seq": self._last_seq}
            with contextlib.suppress(ClientError):
                await self.send(ack)

    async def _stay_alive(self, interval_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._last_sent = loop.time()
        while True:
            await asyncio.sleep(self._last_sent + interval_s - loop.time())
            if loop.time() - self._last_sent >= interval_s:
                with contextlib.suppress(ClientError):
                    await self.send({"type": "session.heartbeat"})


def session_url(url: str, *, model: str | None, duplex: bool) -> str:
    """Complete a server's address to that of its session endpoint.

    Raises:
        ValueError: it is no address of a WebSocket or HTTP server.
    """
    parts = urlsplit(url if "://" in url else f"ws://{url}")
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    if scheme not in ("ws", "wss") or not parts.netloc:
        raise ValueError(f"not the address of a server: {url!r}")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if duplex:
        # The first frame is our own session.update, so nothing shall open before it.
        query = {"duplex": "1", "autostart": "0"} | query
    if model is not None:
        query["model"] = model
    path = parts.path if parts.path not in ("", "/") else "/v1/realtime"
    return urlunsplit((scheme, parts.netloc, path, urlencode(query), ""))


def _without_query(url: str) -> str:
    return urlunsplit(urlsplit(url)._replace(query=""))


def _refused(error: InvalidStatus) -> ClientConnectionError:
    status = error.response.status_code
    hints = {
        401: "give the server's key: --api-key or DUPLEX_API_KEY",
        403: "the server refuses this origin",
        503: "the server is full; try again later",
    }
    said = _refusal_message(bytes(error.response.body or b""))
    return ClientConnectionError(
        f"the server refused the connection with HTTP {status}{said}",
        status=status,
        hint=hints.get(status),
    )


def _refusal_message(body: bytes) -> str:
    try:
        return f": {msgspec.json.decode(body)['error']['message']}"
    except (msgspec.DecodeError, KeyError, TypeError):
        return ""


def _lost(error: ConnectionClosed) -> ClientError:
    code = error.rcvd.code if error.rcvd is not None else None
    reason = error.rcvd.reason if error.rcvd is not None else ""
    if code in (1000, 1001):
        return ClientSessionClosedError(reason or "closed by the server")
    return ClientConnectionError(
        f"the connection was lost ({reason or code or 'no close frame'})", close_code=code
    )
