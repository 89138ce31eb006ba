from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from duplex_sdk.scaffold import Kind, ProjectName, render_project, write_project

NOBODY = 65534


@dataclass(frozen=True)
class Installed:
    """A generated project, installed from the wheel it builds into a folder of its own."""

    name: ProjectName
    project: Path
    site: Path

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a module with a fresh interpreter that sees the installed plugin."""
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.project,
            env={**os.environ, "PYTHONPATH": str(self.site), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


@pytest.fixture(scope="module")
def install(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, Kind], Installed]:
    """Generates a project and installs it; nothing is fetched, nothing here is changed."""

    def do(name: str, kind: Kind) -> Installed:
        folder = tmp_path_factory.mktemp("scaffold")
        project, site = folder / name, folder / "site"
        write_project(render_project(ProjectName(name), kind), project)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, "--no-deps", "--no-index", "--no-build-isolation", "--target", site, project],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return Installed(ProjectName(name), project, site)

    return do


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder in which this process may not write, even where the tests run as root."""
    root = os.geteuid() == 0
    folder = tmp_path / "locked"
    folder.mkdir()
    opened = [folder, *folder.parents[:-1]] if root else []
    modes = {path: path.stat().st_mode for path in opened}
    for path in opened:
        path.chmod(modes[path] | 0o055)
    folder.chmod(0o555)
    if root:
        os.seteuid(NOBODY)
    yield folder
    if root:
        os.seteuid(0)
    for path, mode in modes.items():
        path.chmod(mode)
