"""A machine that lends workers, and callers that only take up its time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from duplex_sdk.stage.worker.listener import WorkerListener
from duplex_sdk.stage.worker.proof import GREETING, NONCE_BYTES, PROOF_BYTES


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    listener = WorkerListener(listening, "s" * 40, max_workers=1, proof_timeout_s=0.2)
    serving = threading.Thread(target=listener.serve)
    serving.start()
    yield address
    listener.close()
    serving.join()


def trickle(stream: socket.socket, count: int) -> int:
    """Send bytes one by one, each well within the time that all together may take."""
    for sent in range(count):
        try:
            stream.send(b"x")
        except ConnectionError:
            return sent
        time.sleep(0.05)
    return count


def test_a_caller_that_proves_itself_byte_by_byte_has_no_more_time_than_others(
    address: tuple[str, int],
) -> None:
    with socket.create_connection(address) as stream:
        assert stream.recv(1000).startswith(GREETING)
        assert trickle(stream, NONCE_BYTES + PROOF_BYTES) < NONCE_BYTES + PROOF_BYTES
