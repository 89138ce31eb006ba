"""`duplex bench` measures a server that runs, and says so when one fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from duplex_sdk.cli.app import build_app
from duplex_sdk.cli.bench_caller import Caller, Timings
from duplex_sdk.cli.server_process import ServerProcess
from duplex_sdk.clients import ClientConnectionError, DuplexClient
from duplex_sdk.testing.session_lab import tone
from typer.testing import CliRunner

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def url() -> AsyncIterator[str]:
    async with ServerProcess("--plugin", "scripted", "--max-sessions", "2") as server:
        yield server.url


async def bench(*arguments: str) -> tuple[int, str]:
    runner, app = CliRunner(), build_app(["bench"])
    result = await asyncio.to_thread(runner.invoke, app, ["bench", *arguments])
    return result.exit_code, result.output


async def test_figures_of_every_step_are_shown_and_written(url: str, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    _, shown = await bench(url, "--sessions", "1,2", "--seconds", "1", "--json", str(path))
    figures: dict[str, Any] = json.loads(path.read_text())
    assert [step["sessions"] for step in figures["steps"]] == [1, 2]
    for step in figures["steps"]:
        assert step["turns"] == step["sessions"]
        assert step["opening"]["n"] == step["sessions"]
        assert step["round_trip"]["n"] > 10
        assert step["cancel"]["n"] == step["sessions"]
        assert step["late_audio"] == 0
        assert step["failures"] == {}
    assert "round trip" in shown


async def test_step_the_server_has_no_room_for_is_not_in_real_time(
    url: str, tmp_path: Path
) -> None:
    path = tmp_path / "figures.json"
    code, shown = await bench(url, "--sessions", "3", "--seconds", "0.5", "--json", str(path))
    [step] = json.loads(path.read_text())["steps"]
    assert step["failures"] == {"resource_exhausted": 1}
    assert not step["in_real_time"]
    assert code == 1
    assert "resource_exhausted" in shown


async def test_a_server_that_is_not_there_is_said_in_words() -> None:
    runner, app = CliRunner(), build_app(["bench"])
    arguments = ["bench", "ws://127.0.0.1:1", "--sessions", "1,2", "--seconds", "0.5"]
    result = await asyncio.to_thread(runner.invoke, app, arguments)
    assert isinstance(result.exception, ClientConnectionError)
    assert "no connection to ws://127.0.0.1:1" in str(result.exception)
    assert "sessions" not in result.output


@pytest.mark.parametrize("wrong", ["", "0", "one", "1,-2"])
async def test_wrong_numbers_of_sessions_are_wrong_usage(wrong: str) -> None:
    code, _ = await bench("ws://127.0.0.1:1", "--sessions", wrong)
    assert code == 2


async def test_caller_counts_what_goes_wrong_and_raises_nothing() -> None:
    timings = Timings()
    client = DuplexClient("ws://127.0.0.1:1")
    await Caller(client, tone(100, 16_000), 16_000, timings).run(1.0)
    assert timings.failures == {"ClientConnectionError": 1}
