"""The socket that ``duplex serve`` makes for itself."""

from __future__ import annotations

import socket
import sys

import pytest
from duplex_server.cli.listening_socket import ListenError, bind_socket, served_address


@pytest.mark.skipif(sys.platform != "linux", reason="the options are named for Linux")
def test_accepted_sockets_bound_what_a_client_that_stops_reading_is_sent():
    not_sent_lowat = 25
    with bind_socket("127.0.0.1", 0) as listening:
        listening.listen()
        listening.setblocking(True)
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, not_sent_lowat) == 16 * 1024
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 40_000


def test_accepted_sockets_send_a_short_event_without_waiting_for_an_acknowledgement():
    with bind_socket("127.0.0.1", 0) as listening:
        listening.listen()
        listening.setblocking(True)
        with socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_nobody_can_connect_before_the_server_listens():
    with bind_socket("127.0.0.1", 0) as listening, pytest.raises(ConnectionRefusedError):
        socket.create_connection(listening.getsockname())


def test_taken_port_is_told_with_a_way_out():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"port {port}") as refused:
            bind_socket("127.0.0.1", port)
    assert "--port" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("host", "secure", "address"),
    [("127.0.0.1", False, "http://127.0.0.1"), ("0.0.0.0", True, "https://127.0.0.1")],
)
def test_address_is_one_a_person_here_can_open(host, secure, address):
    with bind_socket(host, 0) as listening:
        port = listening.getsockname()[1]
        assert served_address(listening, secure=secure) == f"{address}:{port}"
