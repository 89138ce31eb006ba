"""Where a worker finds its engine: ``unix:PATH`` or ``tcp:HOST:PORT``."""

from __future__ import annotations

import socket

__all__ = ["connect"]

_CONNECT_TIMEOUT_S = 10.0


def connect(address: str) -> socket.socket:
    """A connected, blocking stream socket.

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
    host, _, port = place.rpartition(":")
    if kind == "tcp" and host and port.isdecimal():
        stream = socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S)
        stream.settimeout(None)
        # A unit is small and waited for; it must not wait for the next one to fill a packet.
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return stream
    raise ValueError(f"an address is written unix:PATH or tcp:HOST:PORT; got {address!r}")
