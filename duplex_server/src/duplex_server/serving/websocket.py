"""The rim of the server: one small socket class between the handler and the ASGI server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

__all__ = ["RealtimeSocket", "SocketGone", "StarletteSocket"]

_MAX_REASON_BYTES = 123


class SocketGone(Exception):
    """The peer is no longer there, or the connection was closed already."""


class RealtimeSocket(ABC):
    """A message socket. One reader; ``send`` and ``close`` from one task at a time."""

    @abstractmethod
    async def accept(self) -> None:
        """Complete the upgrade.

        Raises:
            SocketGone: the client did not wait for it.
        """

    @abstractmethod
    async def refuse(self, response: Response) -> None:
        """Answer the upgrade with an HTTP response instead. A peer that is gone is no error."""

    @abstractmethod
    async def receive(self) -> str | bytes:
        """The next message: text as str, binary as bytes.

        Raises:
            SocketGone: the connection is over.
        """

    @abstractmethod
    async def send(self, text: str) -> None:
        """Send a text message; returns when the transport takes more.

        Raises:
            SocketGone: the connection is over.
        """

    @abstractmethod
    async def close(self, code: int, reason: str = "") -> None:
        """Close; a longer reason is cut to 123 bytes. On a closed socket nothing happens."""


class StarletteSocket(RealtimeSocket):
    """A Starlette WebSocket behind the small interface."""

    def __init__(self, websocket: WebSocket, subprotocol: str | None) -> None:
        self._websocket = websocket
        self._subprotocol = subprotocol

    async def accept(self) -> None:
        """Complete the upgrade with the chosen subprotocol."""
        try:
            await self._websocket.accept(subprotocol=self._subprotocol)
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise SocketGone from error

    async def refuse(self, response: Response) -> None:
        """Send a denial response."""
        try:
            await self._websocket.send_denial_response(response)
        except (WebSocketDisconnect, OSError):
            return

    async def receive(self) -> str | bytes:
        """The next message as the ASGI server delivers it."""
        try:
            message: Mapping[str, Any] = await self._websocket.receive()
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise SocketGone from error
        if message["type"] == "websocket.disconnect":
            raise SocketGone
        text = message.get("text")
        if text is not None:
            return str(text)
        return bytes(message.get("bytes") or b"")

    async def send(self, text: str) -> None:
        """Send a text message."""
        try:
            await self._websocket.send({"type": "websocket.send", "text": text})
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise SocketGone from error

    async def close(self, code: int, reason: str = "") -> None:
        """Send the close frame, once."""
        if self._websocket.application_state is not WebSocketState.CONNECTED:
            return
        try:
            await self._websocket.close(code, _cut(reason))
        except (WebSocketDisconnect, RuntimeError, OSError):
            return


def _cut(reason: str) -> str:
    return reason.encode("utf-8", "replace")[:_MAX_REASON_BYTES].decode("utf-8", "ignore")
