"""A plugin whose libraries exclude the server's, served from an environment of its own."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.cli.server_process import ServerProcess
from duplex_sdk.clients import DuplexClient
from duplex_sdk.discovery import read_environment
from duplex_sdk.errors import (
    PluginBrokenError,
    PluginConflictError,
    PluginIncompatibleError,
    PluginNotFoundError,
)
from duplex_sdk.protocol.duplex import ResponseDone, TranscriptDelta
from patience import PATIENCE_S

NEEDED = ("msgspec", "numpy", "numpy.libs", "packaging", "pybase64")
"""What a worker's environment holds besides the SDK and the plugin."""

LIGHT = """
from duplex_sdk.plugin import DuplexCapabilities, DuplexModelPlugin, PluginSpec
from duplex_sdk.stage import PipelineConfig, StageConfig

plugin = PluginSpec(
    name="{name}", api="{api}", factory="{package}:Plugin", summary="at odds with the server"
)

class Plugin(DuplexModelPlugin):
    def capabilities(self, *, max_sessions):
        return DuplexCapabilities.turn_based()

    def pipeline(self):
        stage = StageConfig("only", model="{package}.model:Model", quick=True)
        return PipelineConfig(stages=(stage,))
"""

HEAVY = """
import sys

import rivalry
from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import StageInfo, StageModel

class Model(StageModel):
    def load(self, context):
        if rivalry.VERSION != 2:
            raise RuntimeError("needs rivalry 2")
        return StageInfo(context.device)

    def open(self, session):
        return None

    def step_unit(self, unit, now):
        if unit.prompt.final:
            text = f"rivalry {rivalry.VERSION} of {sys.prefix}"
            yield unit.output(text=text, audio=PcmChunk.silence(2400, 24_000), end_of_turn=True)
"""


def install(
    site: Path, distribution: str, package: str, sources: dict[str, str], meta: str = ""
) -> None:
    """Put a package with its metadata into a folder of packages."""
    folder = site / package
    folder.mkdir(parents=True)
    for name, source in sources.items():
        (folder / name).write_text(source)
    info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n{meta}"
    )
    if distribution.startswith("duplex-plugin-"):
        name = distribution.removeprefix("duplex-plugin-")
        (info / "entry_points.txt").write_text(f"[duplex.plugins]\n{name} = {package}:plugin\n")


def install_plugin(site: Path, name: str, *, api: str = "1.0", package: str = "") -> None:
    package = package or f"at_odds_{name}"
    sources = {
        "__init__.py": LIGHT.format(name=name, package=package, api=api),
        "model.py": HEAVY,
    }
    install(site, f"duplex-plugin-{name}", package, sources, "Requires-Dist: rivalry==2.*\n")


class Environment:
    """A second environment with what a worker needs, and a plugin that clashes with ours."""

    def __init__(self, folder: Path) -> None:
        venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
        self.python = folder / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = folder / "lib" / version / "site-packages"
        for name in NEEDED:
            self._link(name)
        sdk = importlib.util.find_spec("duplex_sdk")
        assert sdk is not None
        assert sdk.origin is not None
        (self.site / "sdk.pth").write_text(str(Path(sdk.origin).parents[1]))
        install(self.site, "duplex-sdk", "not_the_sdk_itself", {})
        install(self.site, "rivalry", "rivalry", {"__init__.py": "VERSION = 2"})
        install_plugin(self.site, "clash")

    def _link(self, package: str) -> None:
        numpy = importlib.util.find_spec("numpy")
        assert numpy is not None
        assert numpy.origin is not None
        (self.site / package).symlink_to(Path(numpy.origin).parents[1] / package)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("other") / "venv")


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library in the version that the other environment can't bear, on our own path."""
    install(tmp_path / "site", "rivalry", "rivalry", {"__init__.py": "VERSION = 1"})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    said = subprocess.check_output([sys.executable, "-c", "print(__import__('rivalry').VERSION)"])
    assert said == b"1\n"


@pytest.fixture
def clean_imports() -> Iterator[None]:
    """Forget what was imported from the other environment."""
    finders, modules = list(sys.meta_path), set(sys.modules)
    read_environment.cache_clear()
    yield
    sys.meta_path[:] = finders
    for name in set(sys.modules) - modules:
        if name.startswith("at_odds"):
            del sys.modules[name]


@pytest.mark.usefixtures("ours")
async def test_a_plugin_of_another_environment_is_served(environment: Environment) -> None:
    arguments = ("--plugin", "clash", "--worker-python", str(environment.python))
    async with (
        ServerProcess(*arguments, "--device", "cpu") as server,
        DuplexClient(server.url, {"turn_detection": None}) as client,
    ):
        events = client.events(size=1024)
        await client.append_audio(os.urandom(3200))
        await client.commit(response_create=True)
        text = ""
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                if isinstance(event, TranscriptDelta):
                    text += event.delta
                if isinstance(event, ResponseDone):
                    break
    assert text == f"rivalry 2 of {environment.python.parents[1]}"


async def test_without_its_environment_the_plugin_is_unknown(environment: Environment) -> None:
    done = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "duplex_sdk.cli", "serve", "--plugin", "clash", "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await done.communicate()
    assert done.returncode == 1
    assert "no plugin called 'clash'" in said.decode()


@pytest.mark.usefixtures("clean_imports")
class TestReading:
    def test_one_package_becomes_importable_and_nothing_beside_it(
        self, environment: Environment
    ) -> None:
        other = read_environment(environment.python)
        assert "clash" in other.names
        spec = other.find("clash")
        assert spec.summary == "at odds with the server"
        module = spec.load().__module__
        assert str(environment.site) in (sys.modules[module].__file__ or "")
        assert importlib.util.find_spec("at_odds_clash.model") is not None
        assert importlib.util.find_spec("rivalry") is None
        assert importlib.util.find_spec("not_the_sdk_itself") is None

    def test_the_interpreter_is_run_once(self, environment: Environment) -> None:
        assert read_environment(environment.python) is read_environment(environment.python)

    def test_a_plugin_that_is_not_there_is_named_with_those_that_are(
        self, environment: Environment
    ) -> None:
        with pytest.raises(PluginNotFoundError, match="it has: clash") as failure:
            read_environment(environment.python).find("clsh")
        assert str(environment.python) in (failure.value.hint or "")

    def test_a_package_of_that_name_that_is_loaded_here_is_a_conflict(
        self, environment: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "at_odds_clash", sys)
        with pytest.raises(PluginConflictError, match="loaded already"):
            read_environment(environment.python).find("clash")

    def test_a_plugin_for_another_api_is_refused(self, environment: Environment) -> None:
        install_plugin(environment.site, "newer", api="9.0")
        with pytest.raises(PluginIncompatibleError, match=r"wants plugin API 9\.0"):
            read_environment(environment.python).find("newer")

    def test_a_plugin_that_is_no_package_says_so(self, environment: Environment) -> None:
        install_plugin(environment.site, "gone", package="at_odds_gone")
        (environment.site / "at_odds_gone").rename(environment.site / "elsewhere")
        with pytest.raises(PluginBrokenError, match="not there"):
            read_environment(environment.python).find("gone")

    @pytest.mark.parametrize(
        ("told", "says"),
        [
            ("print('[]')", "cannot be read"),
            ("raise ImportError('no duplex_sdk')", "no duplex_sdk"),
        ],
    )
    def test_an_interpreter_that_tells_nonsense_is_named(
        self, tmp_path: Path, told: str, says: str
    ) -> None:
        python = tmp_path / "python"
        python.write_text(f"#!{sys.executable}\n{told}\n")
        python.chmod(0o755)
        with pytest.raises(Exception, match=says) as failure:
            read_environment(python)
        assert str(python) in str(failure.value)
        hint: Any = failure.value.hint  # type: ignore[attr-defined]
        assert hint
