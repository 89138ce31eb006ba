"""The sample hook package as somebody has it who installed it: a server process that finds it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
from duplex_sdk.cli.server_process import ServerProcess, ServerStartError
from duplex_sdk.discovery.hookspecs import Hookspecs
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

DOCS = Path(__file__).parents[2] / "docs"
SAMPLE = DOCS / "examples" / "duplex_hooks_sample"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path of child processes, with what an installer would put there."""
    site = tmp_path / "site"
    shutil.copytree(SAMPLE / "src" / "duplex_hooks_sample", site / "duplex_hooks_sample")
    project = tomllib.loads((SAMPLE / "pyproject.toml").read_text())["project"]
    info = site / "duplex_hooks_sample-0.1.0.dist-info"
    info.mkdir()
    name, version = project["name"], project["version"]
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", str(site))
    return site


def write_users(folder: Path, **keys: str) -> Path:
    path = folder / "users.txt"
    digests = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in keys.items()}
    path.write_text("# name, digest\n" + "".join(f"{n} {d}\n" for n, d in digests.items()))
    return path


async def status(url: str, key: str | None) -> int:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    try:
        async with connect(f"{url}/v1/realtime", additional_headers=headers) as socket:
            assert json.loads(await socket.recv())["type"] == "session.created"
            return 101
    except InvalidStatus as refused:
        return int(refused.response.status_code)


async def test_the_sample_admits_its_users_and_records_their_sessions(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings = tmp_path / "recordings"
    monkeypatch.setenv("DUPLEX_SAMPLE_USERS", str(write_users(tmp_path, ada="secret")))
    monkeypatch.setenv("DUPLEX_SAMPLE_RECORDINGS", str(recordings))
    async with ServerProcess("--plugin", "scripted") as server:
        found = {key: await status(server.url, key) for key in (None, "guess", "secret")}
    assert found == {None: 401, "guess": 401, "secret": 101}
    (recording,) = recordings.glob("*.jsonl")
    told = [json.loads(line) for line in recording.read_text().splitlines()]
    assert told[0]["session"]["id"] == recording.stem
    assert (told[0]["type"], told[-1]["type"]) == ("session.created", "session.closed")


async def test_without_its_users_file_the_sample_admits_nobody(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUPLEX_SAMPLE_USERS", str(tmp_path / "gone.txt"))
    async with ServerProcess("--plugin", "scripted") as server:
        assert await status(server.url, "secret") == 401


async def test_a_server_that_must_ask_the_sample_starts_with_it_only(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    required = ("--plugin", "scripted", "--authenticator", "duplex-hooks-sample")
    monkeypatch.setenv("DUPLEX_SAMPLE_USERS", str(write_users(tmp_path, ada="secret")))
    async with ServerProcess(*required) as server:
        assert await status(server.url, "secret") == 101
    (installed / "duplex_hooks_sample" / "__init__.py").write_text("import a_directory_nobody_has")
    with pytest.raises(ServerStartError, match="a_directory_nobody_has"):
        async with ServerProcess(*required):
            pass


async def test_unasked_the_sample_changes_nothing(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DUPLEX_SAMPLE_USERS", raising=False)
    async with ServerProcess("--plugin", "scripted") as server:
        assert await status(server.url, None) == 101


def test_every_hook_is_listed_in_the_page() -> None:
    page = (DOCS / "hooks.md").read_text()
    table = page[page.index("| hook |") : page.index("`settings` are")]
    assert set(re.findall(r"^\| `(\w+)`", table, re.M)) == {
        name for name in vars(Hookspecs) if name.startswith("duplex_")
    }


def test_the_lines_the_page_shows_are_the_entry_point() -> None:
    first, last = re.search(r":lines: (\d+)-(\d+)", (DOCS / "hooks.md").read_text()).groups()  # type: ignore[union-attr]
    lines = (SAMPLE / "pyproject.toml").read_text().splitlines()[int(first) - 1 : int(last)]
    assert lines == ['[project.entry-points."duplex.hooks"]', 'sample = "duplex_hooks_sample"']
