"""How long a command waits for the server that it started."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from duplex_sdk.cli import server_process
from duplex_sdk.cli.server_process import ServerProcess, ServerStartError

PATIENCE_S = 2.0
ADDRESS = "listening on http://127.0.0.1:8123"


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Says what the program does that is started in the server's place."""
    program = tmp_path / "server"
    program.touch(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(server_process, "START_TIMEOUT_S", PATIENCE_S)

    def write(commands: str) -> None:
        program.write_text(f"#!/bin/sh\n{commands}\n")

    return write


async def test_a_server_that_says_how_far_it_is_may_take_its_time(
    pretend: Callable[[str], None],
) -> None:
    loading = "for n in 1 2 3 4; do echo loading $n; sleep 0.6; done"
    pretend(f"{loading}\necho {ADDRESS}\nexec sleep 30")
    async with ServerProcess() as server:
        assert server.url == "ws://127.0.0.1:8123"


async def test_a_silent_server_is_given_up_and_its_last_words_told(
    pretend: Callable[[str], None],
) -> None:
    pretend("echo loading\nexec sleep 30")
    with pytest.raises(ServerStartError, match="last words:\nloading"):
        async with ServerProcess():
            pass


async def test_a_server_that_ends_is_not_waited_for(pretend: Callable[[str], None]) -> None:
    pretend("echo error: no such plugin")
    with pytest.raises(ServerStartError, match="no such plugin"):
        async with ServerProcess():
            pass
