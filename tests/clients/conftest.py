"""A server of ours, started from the common environment, for clients that know nothing of it.

``DUPLEX_COMMAND`` names the server's command, ``DUPLEX_SPEECH_DIR`` the folder of spoken WAVs;
``make test-clients`` sets both.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
import wave
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from patience import PATIENCE_S, wait_until
from second_tries import offer_second_tries

RATE_HZ = 24_000
ADDRESS = re.compile(r"127\.0\.0\.1:(\d+)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    offer_second_tries(config, items, [Path(__file__).parent])


@dataclass(frozen=True)
class Server:
    port: int

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def realtime_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime"

    def open_sessions(self) -> int:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/health", timeout=PATIENCE_S
        ) as answer:
            return int(json.load(answer)["slots"]["used"])

    def wait_until_empty(self) -> None:
        """Return when every closed session has given its slot back."""
        wait_until(lambda: self.open_sessions() == 0)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    yield from serving("--plugin", "scripted", "--max-sessions", "16")


def serving(*arguments: str) -> Iterator[Server]:
    command = [os.environ["DUPLEX_COMMAND"], "serve", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said: deque[str] = deque(maxlen=200)
    address = threading.Event()
    reader = threading.Thread(target=follow, args=(process, said, address), daemon=True)
    reader.start()
    try:
        if not address.wait(PATIENCE_S):
            raise RuntimeError("the server did not say where it listens:\n" + "".join(said))
        match = next(found for line in said if (found := ADDRESS.search(line)))
        started = Server(int(match.group(1)))
        answers(started, process, said)
        yield started
    finally:
        stop(process)
        reader.join(PATIENCE_S)
        if process.stdout is not None:
            process.stdout.close()


def follow(process: subprocess.Popen[str], said: deque[str], address: threading.Event) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if ADDRESS.search(line):
            address.set()


def answers(server: Server, process: subprocess.Popen[str], said: deque[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError("the server ended at its start:\n" + "".join(said))
        try:
            server.open_sessions()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the server does not answer:\n" + "".join(said))


def stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def question() -> bytes:
    return speech("question")


@pytest.fixture(scope="session")
def interruption() -> bytes:
    return speech("interruption")


@pytest.fixture(scope="session")
def human() -> bytes:
    return speech("human")


def speech(name: str) -> bytes:
    """PCM16 mono at 24 kHz, as every stock client sends it."""
    path = Path(os.environ["DUPLEX_SPEECH_DIR"]) / f"{name}.wav"
    with wave.open(str(path), "rb") as file:
        assert file.getframerate() == RATE_HZ
        return file.readframes(file.getnframes())
