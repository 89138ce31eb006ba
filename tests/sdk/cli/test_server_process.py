"""How long a command waits for the server that it started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from duplex_sdk.cli import server_process
from duplex_sdk.cli.server_process import ServerProcess, ServerStartError

PATIENCE_S = 2.0
ADDRESS = "listening on http://127.0.0.1:8123"


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is started in the server's place; the test writes what it does."""
    program = tmp_path / "server"
    program.touch(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(server_process, "START_TIMEOUT_S", PATIENCE_S)
    return program


async def test_a_server_that_says_how_far_it_is_may_take_its_time(pretend: Path) -> None:
    loading = "for n in 1 2 3 4; do echo loading $n; sleep 0.6; done"
    pretend.write_text(f"#!/bin/sh\n{loading}\necho {ADDRESS}\nexec sleep 30\n")
    async with ServerProcess() as server:
        assert server.url == "ws://127.0.0.1:8123"


async def test_a_silent_server_is_given_up_and_its_last_words_told(pretend: Path) -> None:
    pretend.write_text("#!/bin/sh\necho loading\nexec sleep 30\n")
    with pytest.raises(ServerStartError, match="last words:\nloading"):
        async with ServerProcess():
            pass


async def test_a_server_that_ends_is_not_waited_for(pretend: Path) -> None:
    pretend.write_text("#!/bin/sh\necho error: no such plugin\n")
    with pytest.raises(ServerStartError, match="no such plugin"):
        async with ServerProcess():
            pass
