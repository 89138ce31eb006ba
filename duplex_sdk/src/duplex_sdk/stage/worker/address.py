"""Where a worker finds its engine: ``unix:PATH``, ``tcp:HOST:PORT`` or a stream it was given."""

from __future__ import annotations

import socket

__all__ = ["connect", "host_and_port", "send_at_once"]

_CONNECT_TIMEOUT_S = 10.0
_HIGHEST_PORT = 65_535


def host_and_port(text: str) -> tuple[str, int]:
    """The parts of ``HOST:PORT``; an IPv6 address stands in brackets.

    Raises:
        ValueError: it is written otherwise.
    """
    host, separator, port = text.rpartition(":")
    if not separator or not host or not port.isdecimal() or int(port) > _HIGHEST_PORT:
        raise ValueError(f"this is written HOST:PORT; got {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def send_at_once(stream: socket.socket) -> None:
    """A unit is small and waited for; it must not wait for the next one to fill a packet."""
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def connect(address: str) -> socket.socket:
    """A connected, blocking stream socket; ``fd:N`` is one that this process inherited.

    Raises:
        ValueError: the address has another form.
        OSError: nobody answers there.
    """
    kind, _, place = address.partition(":")
    if kind == "unix" and place:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.connect(place)
        except OSError:
            stream.close()
            raise
        return stream
    if kind == "tcp":
        stream = socket.create_connection(host_and_port(place), _CONNECT_TIMEOUT_S)
        stream.settimeout(None)
        send_at_once(stream)
        return stream
    if kind == "fd" and place.isdecimal():
        return socket.socket(fileno=int(place))
    raise ValueError(f"an address is written unix:PATH or tcp:HOST:PORT; got {address!r}")
