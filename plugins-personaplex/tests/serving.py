"""``duplex serve`` as its users start it, for tests that meet it only through its socket."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_TIMEOUT_S = 150.0
STOP_TIMEOUT_S = 60.0
_ADDRESS = re.compile(r"realtime: ws://127\.0\.0\.1:(\d+)")
DUPLEX = Path(sys.executable).with_name("duplex")


@contextmanager
def serve(*arguments: str) -> Iterator[int]:
    """A server while it lasts; its port."""
    command = [str(DUPLEX), "serve", "--plugin", "personaplex", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said: list[str] = []
    ready = threading.Event()

    def follow() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            if _ADDRESS.search(line):
                ready.set()
        ready.set()

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    try:
        ready.wait(START_TIMEOUT_S)
        found = [match for line in said if (match := _ADDRESS.search(line))]
        assert found, "the server did not start:\n" + "".join(said)
        yield int(found[0][1])
    finally:
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(STOP_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()
