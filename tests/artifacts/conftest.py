"""What users install: the wheels, in an environment that knows nothing of this repository.

Its third-party packages are those of the common environment, one link each, so nothing is fetched.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("duplex_", "_editable_impl_duplex_", "__editable__")


@dataclass(frozen=True)
class Environment:
    """A fresh environment with our wheels in it, and a folder to be in."""

    folder: Path
    here: Path
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def clean(self) -> dict[str, str]:
        """The environment variables of a user who has set none."""
        ours = ("PYTHON", "VIRTUAL_ENV", "DUPLEX_", "PYTEST_")
        return {key: value for key, value in os.environ.items() if not key.startswith(ours)}

    def run(self, *command: str | Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment."""
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.here,
            env={**self.clean(), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def install(self, *packages: str | Path) -> None:
        """Install into it; nothing is fetched."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install"]
        offline = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-compile"]
        done = subprocess.run(
            [*pip, *offline, *map(str, packages)],
            cwd=self.here,
            env=self.clean(),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel of every distribution."""
    folder = tmp_path_factory.mktemp("artifacts")
    subprocess.run(
        [sys.executable, ROOT / "scripts" / "distributions.py", folder],
        capture_output=True,
        timeout=240,
        check=True,
    )
    return folder


@pytest.fixture(scope="session")
def environment(artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Everything of ours installed from its wheel, outside the repository."""
    folder = tmp_path_factory.mktemp("environment")
    others = folder / "others"
    others.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(OURS):
            (others / path.name).symlink_to(path)
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    site = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
    (site / "others.pth").write_text(f"{others}\n")
    here = folder / "here"
    here.mkdir()
    made = Environment(folder / "venv", here)
    made.install(*sorted(artifacts.glob("*.whl")))
    return made
