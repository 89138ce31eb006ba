"""The tutorial, followed to the letter by somebody who has our wheels and nothing else."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pytest
from duplex_sdk.scaffold import Kind, ProjectName, render_project
from patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.timeout(300)

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
PORT = "8000"


class Block(NamedTuple):
    language: str
    text: str


def blocks() -> list[Block]:
    found = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return [Block(*each) for each in found]


def programs() -> dict[str, str]:
    """Code that the reader is to save, by the file name in its first line."""
    named = (re.match(r"# (\S+\.py)\n(.*)", block.text, re.S) for block in blocks())
    return {found[1]: found[2] for found in named if found}


@pytest.fixture
def reader(environment: Any, artifacts: Path, tmp_path: Path) -> Any:
    """Somebody in a folder of their own; `pip` finds our wheels, and nothing else is fetched."""
    for name in ("pip", "pytest"):
        script = environment.bin / name
        script.write_text(f'#!/bin/sh\nexec "$(dirname "$0")/python" -m {name} "$@"\n')
        script.chmod(0o755)
    return Reader(environment, artifacts, tmp_path)


class Reader:
    def __init__(self, environment: Any, artifacts: Path, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        self.variables = {
            **environment.clean(),
            "PATH": f"{environment.bin}:/usr/bin:/bin",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(artifacts),
            # What this variable says is the opposite of its name.
            "PIP_NO_BUILD_ISOLATION": "0",
            "DUPLEX_PORT": self.port,
        }
        self.server: subprocess.Popen[str] | None = None

    def type(self, line: str) -> str:
        """A line in a terminal; what it printed."""
        done = subprocess.run(
            line,
            shell=True,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def serve(self, line: str) -> None:
        """A line whose command stays; the next ones go into another terminal."""
        log = self.folder / "serve.log"
        with log.open("w") as out:
            server = self.server = subprocess.Popen(
                line.split(), cwd=self.folder, env=self.variables, stdout=out, stderr=out, text=True
            )
        address = f"127.0.0.1:{self.port}"
        wait_until(lambda: server.poll() is not None or address in log.read_text())
        assert server.poll() is None, log.read_text()

    def save(self, name: str, text: str) -> None:
        """A file with this text, but for the port, which others may have here."""
        (self.folder / name).write_text(text.replace(PORT, self.port))

    def leave(self) -> None:
        if self.server is not None:
            self.server.terminate()
            self.server.wait(PATIENCE_S)


def test_each_line_of_the_tutorial_does_what_it_says(reader: Any) -> None:
    for name, text in programs().items():
        reader.save(name, text)
    printed = ""
    try:
        for block in blocks():
            if block.language == "text":
                assert printed == block.text
            elif block.language == "console":
                for line in block.text.splitlines():
                    if line.startswith("duplex serve"):
                        reader.serve(line)
                    else:
                        printed = reader.type(line)
    finally:
        reader.leave()
    assert printed == "600 ms of sound came back\n"


@pytest.mark.parametrize("file", ["__init__.py", "model.py"])
def test_the_code_it_shows_is_the_code_that_is_written(file: str) -> None:
    written = render_project(ProjectName("acme-voice"), Kind.MINIMAL)
    path = PurePosixPath("src/duplex_plugin_acme_voice") / file
    assert written[path].decode() in [block.text for block in blocks()]
