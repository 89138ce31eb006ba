"""The socket a server listens on, made before anything slow happens."""

from __future__ import annotations

import errno
import socket
import sys

from duplex_sdk.errors import DuplexError

__all__ = ["ListenError", "bind_socket", "listen_error", "served_address"]

_UNSENT_BYTES = 16 * 1024
_SILENCE_MS = 40_000
"""As long as a ping may wait to be sent and to be answered."""
# macOS and Linux number the option differently and Python names it only from 3.12 on (Linux).
_NOTSENT_LOWAT = getattr(
    socket, "TCP_NOTSENT_LOWAT", {"linux": 25, "darwin": 0x201}.get(sys.platform)
)
_ANY = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


class ListenError(DuplexError):
    """The address cannot be listened on."""


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind, without listening yet.

    Raises:
        ListenError: the port is taken, not allowed, or the host is not ours.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ListenError(
            f"no address called '{host}': {error.strerror}",
            hint="--host is a name or an address of this machine, such as 127.0.0.1",
        ) from error
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _send_at_once(listening)
        _limit_unsent_bytes(listening)
        _limit_silence(listening)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise listen_error(host, port, error) from error
    listening.setblocking(False)
    return listening


def served_address(listening: socket.socket, *, secure: bool) -> str:
    """``http://host:port`` under which people on this machine reach the server."""
    host, port = listening.getsockname()[:2]
    if host in _ANY:
        host = _ANY[host]
    elif ":" in host:
        host = f"[{host}]"
    return f"{'https' if secure else 'http'}://{host}:{port}"


def _send_at_once(listening: socket.socket) -> None:
    # Accepted sockets inherit it. asyncio sets it only on those made with an explicit protocol;
    # without it a short event waits up to 40 ms for the acknowledgement of the one before.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _limit_unsent_bytes(listening: socket.socket) -> None:
    # Accepted sockets inherit it. Without it the kernel takes a minute of speech for a client that
    # has stopped reading, and the bounded output buffer bounds nothing.
    if _NOTSENT_LOWAT is not None:
        listening.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, _UNSENT_BYTES)
    else:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * _UNSENT_BYTES)


def _limit_silence(listening: socket.socket) -> None:
    # A peer that keeps its connection and reads nothing answers the kernel's probes for ever, and
    # closing such a connection in an orderly way waits for it. Also inherited.
    timeout = getattr(socket, "TCP_USER_TIMEOUT", None)
    if timeout is not None:
        listening.setsockopt(socket.IPPROTO_TCP, timeout, _SILENCE_MS)


def listen_error(host: str, port: int, error: OSError) -> ListenError:
    """The system's refusal in words a person can act on."""
    if error.errno == errno.EADDRINUSE:
        return ListenError(
            f"port {port} on {host} is taken by another program",
            hint="choose another with --port, or --port 0 for a free one",
        )
    if error.errno == errno.EACCES:
        return ListenError(
            f"this user may not listen on port {port}", hint="ports from 1024 need no privilege"
        )
    return ListenError(
        f"cannot listen on {host} port {port}: {error.strerror}",
        hint="--host is an address of this machine; 0.0.0.0 stands for all of them",
    )
