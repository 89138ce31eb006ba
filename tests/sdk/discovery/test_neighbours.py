"""Twelve kinds of broken packages in one environment with a healthy plugin: nobody is harmed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.cli.server_process import ServerProcess
from patience import PATIENCE_S
from websockets.asyncio.client import connect

# What is installed -> what the doctor says of it.
KINDS = {
    "import-error": "No module named 'a_runtime_nobody_has'",
    "syntax-error": "SyntaxError",
    "system-exit": "SystemExit: 3",
    "hangs": "takes more than 5 s to import",
    "prints": "its descriptor prints 'hello from a plugin'",
    "no-attribute": "has no attribute 'plugin'",
    "wrong-class": "is a dict, not a PluginSpec",
    "too-old": "wants plugin API 0.9; this SDK speaks 1.0",
    "too-new": "wants plugin API 1.7; this SDK speaks 1.0",
    "twin": "someone-elses-twin claims this name as well",
    "stale": "its package 'fake_stale' is not there",
    "two-versions": "1.0 is used, and 0.5 lies on the path as well",
}

SOURCES = {
    "import-error": "import a_runtime_nobody_has",
    "syntax-error": "def (:",
    "system-exit": "import sys; sys.exit(3)",
    "hangs": "import time; time.sleep(60)",
    "no-attribute": "other = 1",
    "wrong-class": "plugin = {}",
}

ECHO = """
from duplex_sdk.plugin import DuplexCapabilities, DuplexModelPlugin
from duplex_sdk.stage import PipelineConfig, StageConfig, StageInfo, StageModel

class Echo(DuplexModelPlugin):
    def capabilities(self, *, max_sessions):
        return DuplexCapabilities.turn_based()
    def pipeline(self):
        return PipelineConfig((StageConfig("echo", "fake_healthy.model:Model"),))

class Model(StageModel):
    def load(self, context):
        return StageInfo()
    def open(self, session):
        return None
    def step_unit(self, unit, now):
        yield unit.output(text="here", end_of_turn=True)
"""


def descriptor(name: str, api: str = "1.0") -> str:
    package = f"fake_{name.replace('-', '_')}"
    return (
        "from duplex_sdk.plugin import PluginSpec\n"
        f"plugin = PluginSpec(name={name!r}, api={api!r}, factory='{package}.model:Echo')\n"
    )


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory, sites: Any) -> Any:
    """All twelve, and a healthy one."""
    folder = tmp_path_factory.mktemp("site")
    site = sites(folder)
    for name, source in SOURCES.items():
        site.plugin(name, source)
    site.plugin("prints", "print('hello from a plugin')\n" + descriptor("prints"))
    site.plugin("too-old", descriptor("too-old", "0.9"))
    site.plugin("too-new", descriptor("too-new", "1.7"))
    site.plugin("twin")
    site.metadata("someone-elses-twin", "[duplex.plugins]\ntwin = fake_twin:plugin\n")
    stale = folder / "duplex_plugin_stale.egg-info"
    stale.mkdir()
    (stale / "PKG-INFO").write_text(
        "Metadata-Version: 2.1\nName: duplex-plugin-stale\nVersion: 1.0\n"
    )
    (stale / "entry_points.txt").write_text("[duplex.plugins]\nstale = fake_stale:plugin\n")
    site.plugin("two-versions")
    older = folder / "older"
    older.mkdir()
    sites(older).metadata(
        "duplex-plugin-two-versions",
        "[duplex.plugins]\ntwo-versions = fake_two_versions:plugin\n",
        version="0.5",
    )
    site.plugin("healthy", model=ECHO)
    return site


@pytest.fixture
def environment(sick: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    paths = [str(sick.folder), str(sick.folder / "older")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    return sick


def duplex(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("duplex"), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_there_are_twelve_kinds() -> None:
    assert len(KINDS) == 12


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["--version"],
        ["plugins", "list"],
        ["plugins", "list", "--json"],
        ["plugins", "inspect", "healthy"],
        ["plugins", "doctor", "healthy"],
        ["new-plugin", "acme-voice", "--dry-run"],
        ["serve", "--plugin", "healthy", "--print-config"],
        ["serve", "--plugin", "healthy", "--help"],
        ["simulate", "--help"],
    ],
    ids=" ".join,
)
def test_every_command_works_beside_them(
    environment: Any, command: list[str], tmp_path: Path
) -> None:
    done = duplex(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "hello from a plugin" not in done.stdout


def test_the_list_shows_them_all_and_warns_of_what_metadata_tells(environment: Any) -> None:
    done = duplex("plugins", "list")
    assert {line.split()[0] for line in done.stdout.splitlines()} >= {*KINDS, "healthy"}
    for name in ("twin", "stale"):
        assert f"warning: {name}: " in done.stderr


async def test_the_healthy_one_serves(environment: Any) -> None:
    async with (
        ServerProcess("--plugin", "healthy") as server,
        connect(f"{server.url}/v1/realtime") as socket,
    ):
        assert json.loads(await socket.recv())["type"] == "session.created"


def test_the_doctor_names_all_twelve_with_the_true_reason(environment: Any) -> None:
    done = duplex("plugins", "doctor", "--json", "--timeout-s", "5")
    assert done.returncode == 1, done.stderr
    wrong = [
        (report["subject"].partition(" ")[0], check["detail"])
        for report in json.loads(done.stdout)["reports"]
        for check in report["checks"]
        if not check["ok"]
    ]
    # Both twins are told of each other; all others have one trouble each.
    assert sorted(name for name, _ in wrong) == sorted([*KINDS, "twin"])
    for name, reason in KINDS.items():
        assert any(reason in detail for told, detail in wrong if told == name), wrong


@pytest.mark.parametrize("name", sorted(KINDS.keys() - {"hangs", "prints", "two-versions"}))
def test_asking_to_serve_a_broken_one_ends_with_its_cause(environment: Any, name: str) -> None:
    done = duplex("serve", "--plugin", name)
    assert done.returncode == 1
    assert f"'{name}'" in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_one_is_uninstalled_like_any_other(sites: Any, tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=False, symlinks=True)
    folder = next((tmp_path / "lib").glob("python*")) / "site-packages"
    sites(folder).plugin("syntax-error", SOURCES["syntax-error"])
    info = folder / "duplex_plugin_syntax_error-1.0.dist-info"
    (info / "INSTALLER").write_text("pip\n")
    files = [*(folder / "fake_syntax_error").iterdir(), *info.iterdir(), info / "RECORD"]
    (info / "RECORD").write_text("".join(f"{path.relative_to(folder)},,\n" for path in files))
    pip = [sys.executable, "-m", "pip", "--python", tmp_path / "bin" / "python"]
    done = subprocess.run(
        [*pip, "uninstall", "--yes", "duplex-plugin-syntax-error"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not info.exists()
    assert not (folder / "fake_syntax_error" / "__init__.py").exists()
