"""The socket under a client, and the addresses it is opened at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from .errors import ClientAddressError

__all__ = ["Socket", "SocketFactory", "resume_url", "session_url"]


class Socket(ABC):
    """The seam under the client: text frames both ways. Its methods belong to one loop."""

    @abstractmethod
    async def send(self, frame: str) -> None:
        """Send one text frame.

        Raises:
            ClientConnectionError: the connection is gone, and the frame did not leave.
        """

    @abstractmethod
    async def recv(self) -> str | bytes:
        """Return the next frame. Can be cancelled without losing one.

        Raises:
            ClientSessionClosedError: the peer closed normally.
            ClientConnectionError: the connection was lost.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close; idempotent, never raises."""


SocketFactory = Callable[[str, Mapping[str, str]], Awaitable[Socket]]


def session_url(url: str, *, model: str | None, duplex: bool) -> str:
    """Complete a server's address to that of its session endpoint.

    Raises:
        ClientAddressError: it is no address of a WebSocket or HTTP server.
    """
    try:
        parts = urlsplit(url if "://" in url else f"ws://{url}")
        # To ask for the port is to have it checked.
        reachable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        reachable = False
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme) if reachable else ""
    if scheme not in ("ws", "wss"):
        raise ClientAddressError(
            f"not the address of a server: {url!r}", hint="such as ws://127.0.0.1:8000"
        )
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if duplex:
        # The first frame is our own session.update, so nothing shall open before it.
        query = {"duplex": "1", "autostart": "0"} | query
    if model is not None:
        query["model"] = model
    path = parts.path if parts.path not in ("", "/") else "/v1/realtime"
    return urlunsplit((scheme, parts.netloc, path, urlencode(query), ""))


def resume_url(url: str) -> str:
    """The address at which a session opened at ``url`` is continued."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True)) | {"resume": "1"}
    return urlunsplit(parts._replace(query=urlencode(query)))
