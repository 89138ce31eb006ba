from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HEALTHY = """
from duplex_sdk.plugin import PluginSpec
plugin = PluginSpec(name={name!r}, api="1.0", factory="{package}.model:Echo", summary="echoes")
"""

MODEL = """
from duplex_sdk.plugin import DuplexCapabilities, DuplexModelPlugin
from duplex_sdk.stage import PipelineConfig, StageConfig

class Echo(DuplexModelPlugin):
    def capabilities(self, *, max_sessions):
        return DuplexCapabilities.native()
    def pipeline(self):
        return PipelineConfig(stages=(StageConfig(id="echo", model="x.y:Z"),))
"""


class Site:
    """A folder of fake installed packages, put in front of a fresh interpreter's path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def metadata(
        self,
        distribution: str,
        entry_points: str,
        *,
        version: str = "1.0",
        requires: tuple[str, ...] = (),
    ) -> Path:
        """Write a distribution's metadata."""
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = [f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}"]
        lines += [f"Requires-Dist: {line}" for line in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        (info / "entry_points.txt").write_text(entry_points)
        return info

    def package(self, name: str, source: str, *, model: str = MODEL) -> None:
        """Write an import package."""
        package = self.folder / name
        package.mkdir()
        (package / "__init__.py").write_text(source)
        (package / "model.py").write_text(model)

    def plugin(
        self,
        name: str,
        source: str | None = None,
        *,
        attribute: str = "plugin",
        model: str = MODEL,
        requires: tuple[str, ...] = (),
    ) -> None:
        """Install a fake plugin; without a source a healthy one."""
        package = f"fake_{name.replace('-', '_')}"
        self.package(package, source or HEALTHY.format(name=name, package=package), model=model)
        entry = f"[duplex.plugins]\n{name} = {package}:{attribute}\n"
        self.metadata(f"duplex-plugin-{name}", entry, requires=requires)

    def hook(self, name: str, source: str) -> None:
        """Install a fake hook package."""
        package = f"fake_hook_{name}"
        self.package(package, source)
        self.metadata(f"duplex-hook-{name}", f"[duplex.hooks]\n{name} = {package}\n")

    def run(self, *arguments: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Run a fresh interpreter that sees these packages."""
        return subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": str(self.folder), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def duplex(self, *arguments: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Run the command ``duplex``."""
        return self.run(
            "-c", "from duplex_sdk.cli import main; main()", *arguments, timeout=timeout
        )


@pytest.fixture(scope="session")
def sites() -> type[Site]:
    """Makes more such folders."""
    return Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    folder = tmp_path / "site"
    folder.mkdir()
    return Site(folder)


@pytest.fixture
def on_path(site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Site]:
    """Puts the folder on this interpreter's path, for what needs no fresh one."""

    def put() -> Site:
        monkeypatch.syspath_prepend(str(site.folder))
        return site

    return put
