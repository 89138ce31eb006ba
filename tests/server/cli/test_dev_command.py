"""``duplex dev``: a fresh plugin project, served from its sources while they change."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from duplex_sdk.errors import DuplexError
from duplex_sdk.scaffold import Kind, ProjectName, render_project, write_project
from duplex_server.cli.dev_source import PluginSource, SourceWatch
from duplex_server.cli.unit_timings import UnitTimings
from duplex_server.engine.figures import EngineFigures
from patience import PATIENCE_S
from websockets.asyncio.client import connect

DESCRIPTOR = Path("src/duplex_plugin_acme/__init__.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "acme"
    write_project(render_project(ProjectName("acme"), Kind.MINIMAL), folder)
    return folder


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Dev:
    """The running command, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[str] = []
        self._pump = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.said.append(line.decode())

    async def hear(self, words: str) -> str:
        """Wait for a line with these words that was not waited for before."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for number, line in enumerate(self.said):
                    if words in line:
                        del self.said[: number + 1]
                        return line
                assert not self._pump.done(), "".join(self.said)
                await asyncio.sleep(0.05)

    async def end(self) -> int:
        async with asyncio.timeout(PATIENCE_S):
            code = await self.process.wait()
            await self._pump
        return code


@asynccontextmanager
async def dev(project: Path) -> AsyncIterator[Dev]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "duplex_sdk.cli", "dev", str(project), "--port", "0", "--max-sessions", "5"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    running = Dev(process)
    try:
        yield running
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await running.end()


async def address(running: Dev) -> str:
    return (await running.hear("demo page: ")).partition(": ")[2].strip().rstrip("/")


async def slots(url: str) -> int:
    async with httpx.AsyncClient() as client:
        return int((await client.get(f"{url}/health")).json()["slots"]["max"])


async def test_a_change_takes_over_and_a_broken_one_does_not(project: Path) -> None:
    async with dev(project) as running:
        url = await address(running)
        sound = (project / DESCRIPTOR).read_text()
        write(project / DESCRIPTOR, sound + "\nraise RuntimeError('half done')\n")
        await running.hear("RuntimeError: half done")
        await running.hear("hint: mend it and save: every change is tried")
        await running.hear("dev: this version does not start; the one before goes on")
        assert await slots(url) == 5
        write(project / DESCRIPTOR, sound.replace('summary="', 'summary="anew '))
        assert "anew" in await running.hear("plugin: ")
        await running.hear("dev: the new version serves")
        assert await slots(url) == 5
        running.process.send_signal(signal.SIGINT)
        assert await running.end() == 0


async def test_units_are_timed_on_screen(tmp_path: Path) -> None:
    project = tmp_path / "acme"
    write_project(render_project(ProjectName("acme"), Kind.TURN), project)
    async with dev(project) as running:
        url = await address(running)
        async with connect(f"{url.replace('http', 'ws', 1)}/v1/realtime") as client:
            said = [{"type": "input_text", "text": "hello there"}]
            item = {"type": "message", "role": "user", "content": said}
            await client.send(json.dumps({"type": "conversation.item.create", "item": item}))
            await client.send(json.dumps({"type": "response.create"}))
            assert "ms median" in await running.hear("units in ")


async def test_the_server_ends_with_a_command_that_is_killed(project: Path) -> None:
    async with dev(project) as running:
        url = await address(running)
        running.process.kill()
        await running.end()
        async with asyncio.timeout(PATIENCE_S):
            while _answers(url):  # noqa: ASYNC110 - it is another process that ends
                await asyncio.sleep(0.05)


def _answers(url: str) -> bool:
    port = int(url.rpartition(":")[2])
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is no plugin project"),
        ("[project", "is no plugin project"),
        ("[project]\nname = 'x'\n", "has no entry points"),
        ("[project.entry-points.'duplex.plugins']\na = 'a:p'\nb = 'b:p'\n", "has 2 entry points"),
    ],
)
def test_a_folder_that_is_no_plugin_is_refused_with_a_hint(
    text: str | None, words: str, tmp_path: Path
) -> None:
    if text is not None:
        write(tmp_path / "pyproject.toml", text)
    with pytest.raises(DuplexError, match=words) as refused:
        PluginSource.read(tmp_path)
    assert refused.value.hint


def test_a_project_is_found_without_being_installed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from duplex_sdk.discovery.registry import find_entry

    source = PluginSource.read(project)
    source.write_metadata(tmp_path / "site")
    monkeypatch.syspath_prepend(str(source.import_root))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert find_entry("acme").distribution == "duplex-plugin-acme"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda folder: write(folder / "src/a.py", "x = 22\n"), True),
        (lambda folder: write(folder / "src/new.py", ""), True),
        (lambda folder: (folder / "src/a.py").unlink(), True),
        (lambda folder: write(folder / "pyproject.toml", "[project]"), True),
        (lambda folder: write(folder / ".venv/lib/b.py", ""), False),
        (lambda folder: write(folder / "src/__pycache__/a.py", ""), False),
        (lambda folder: write(folder / "tests/test_a.py", ""), False),
        (lambda folder: write(folder / "notes.txt", ""), False),
    ],
)
def test_changes_of_sources_are_told_once(
    change: Callable[[Path], None], told: bool, tmp_path: Path
) -> None:
    write(tmp_path / "src/a.py", "x = 1\n")
    watch = SourceWatch(tmp_path)
    assert not watch.changed()
    change(tmp_path)
    assert [watch.changed() for _ in range(3)] == [False, told, False]


def test_a_folder_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path / "a.py", "")
    watch = SourceWatch(tmp_path)
    for length in range(1, 4):
        write(tmp_path / "a.py", "x" * length)
        assert not watch.changed()
    assert watch.changed()


def test_timings_name_stage_time_and_lateness_and_pass_steps_on() -> None:
    figures, passed = EngineFigures(), []
    figures.on_step = lambda *step: passed.append(step)
    stages = (SimpleNamespace(id="ear", period_ms=80), SimpleNamespace(id="mouth", period_ms=0))
    omni = SimpleNamespace(figures=figures, pipeline=SimpleNamespace(stages=stages))
    timings = UnitTimings(omni)  # type: ignore[arg-type]
    timings.take(0, 2.0, 3)
    timings.take(0, 6.0, 1)
    timings.take(1, 9.0, 1)
    figures.units_late += 2
    assert timings.lines() == [
        "ear: 4 units in 2 steps, 4.0 ms median, 6.0 ms longest of 80 ms",
        "mouth: 1 units in 1 steps, 9.0 ms median, 9.0 ms longest",
        "units late: 2",
    ]
    assert timings.lines() == []
    assert passed == [(0, 2.0, 3), (0, 6.0, 1), (1, 9.0, 1)]
