"""A network whose connection can be cut, between our client and a server."""

from __future__ import annotations

from duplex_sdk.clients import ClientConnectionError, Socket
from duplex_sdk.clients.library_socket import WebSocket

__all__ = ["Network"]


class Network:
    """Opens real sockets, and cuts the newest when it is told to.

    Attributes:
        sockets: how many were opened.
    """

    def __init__(self) -> None:
        self.sockets = 0
        self._newest: _FragileSocket | None = None

    async def open(self, url: str, headers: dict[str, str]) -> Socket:
        """Connect; a ``socket_factory`` of ``DuplexClient``."""
        self.sockets += 1
        self._newest = _FragileSocket(await WebSocket.connect(url, headers))
        return self._newest

    def cut(self) -> None:
        """The connection that is open breaks: nothing more comes or goes."""
        assert self._newest is not None, "there is no connection to cut"
        self._newest.broken = True


class _FragileSocket(Socket):
    def __init__(self, sound: WebSocket) -> None:
        self.broken = False
        self._sound = sound

    async def send(self, frame: str) -> None:
        if self.broken:
            raise ClientConnectionError("cut")
        await self._sound.send(frame)

    async def recv(self) -> str | bytes:
        frame = await self._sound.recv()
        if self.broken:
            # What comes after the cut is lost, and the next socket has to bring it again.
            await self._sound.close()
            raise ClientConnectionError("cut")
        return frame

    async def close(self) -> None:
        await self._sound.close()
