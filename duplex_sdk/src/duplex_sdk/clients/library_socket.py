"""The socket of the ``websockets`` library, a module of its own because importing that is slow.

Only opening a connection needs it; whoever uses the in-process client never does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from .errors import ClientConnectionError, ClientError, ClientSessionClosedError
from .socket import Socket

__all__ = ["WebSocket"]

MAX_FRAME_BYTES = 16 * 2**20
CLOSE_TIMEOUT_S = 2.0


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
                close_timeout=CLOSE_TIMEOUT_S,
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
