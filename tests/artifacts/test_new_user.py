"""A user who has our wheels and no repository: lists, writes a plugin, serves it.

That a new plugin passes its tests here is seen where the tutorial is followed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from duplex_plugin_local.recordings import two_cities
from duplex_sdk.audio import PcmChunk, read_wav, resample, write_wav
from duplex_sdk.scaffold import Kind
from patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.timeout(300)

SCRIPTS = Path(__file__).parents[2] / "scripts"
RATE = 24_000
# Commands that the SDK and the server bring; a broken wheel loses its own.
COMMANDS = {"bench", "dev", "doctor", "new-plugin", "plugins", "serve", "simulate", "talk"}


@contextmanager
def serving(environment: Any, plugin: str) -> Iterator[str]:
    """`duplex serve` of the environment on a free port; its address."""
    log = environment.here / f"{plugin}.log"
    command = [environment.bin / "duplex", "serve", "--plugin", plugin, "--port", "0"]
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=environment.here, env=environment.clean(), stdout=out, stderr=out
        )
    try:
        address = re.compile(r"http://127\.0\.0\.1:\d+")
        wait_until(lambda: process.poll() is not None or bool(address.search(log.read_text())))
        assert process.poll() is None, log.read_text()
        yield address.findall(log.read_text())[0]
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        assert answer.status == 200
        body: bytes = answer.read()
        return body


@pytest.fixture(scope="session")
def speech(environment: Any) -> Path:
    """Three seconds of somebody reading, as a stock client sends it."""
    path: Path = environment.here / "speech.wav"
    recording = resample(read_wav(two_cities()), RATE)
    write_wav(path, PcmChunk(recording.data[: 3 * RATE * 4], RATE))
    return path


@pytest.fixture(scope="session")
def written(environment: Any) -> Any:
    """The environment with a new plugin, as `duplex` wrote it."""
    done = environment.run("duplex", "new-plugin", "other-voice", "--kind", "turn")
    assert done.returncode == 0, done.stderr
    environment.install("-e", "other-voice")
    return environment


def test_nothing_of_the_repository_is_seen(environment: Any) -> None:
    packages = ("duplex_sdk", "duplex_server", "duplex_plugin_local", "duplex_templates")
    code = f"import {', '.join(packages)}; print({', '.join(f'{p}.__file__' for p in packages)})"
    done = environment.run("python", "-c", code)
    assert len(done.stdout.split()) == len(packages), done.stderr
    assert all(path.startswith(str(environment.folder)) for path in done.stdout.split())


def test_every_command_is_there(environment: Any) -> None:
    done = environment.run("duplex", "--help")
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"[a-z-]+", done.stdout)) >= COMMANDS


def test_every_plugin_is_listed_and_described(environment: Any) -> None:
    listed = json.loads(environment.run("duplex", "plugins", "list", "--json").stdout)
    names = [plugin["name"] for plugin in listed["plugins"]]
    assert {"local", "personaplex", "scripted"} <= set(names)
    for name in names:
        assert environment.run("duplex", "plugins", "inspect", name).returncode == 0


def test_what_is_whole_is_sound(environment: Any) -> None:
    for name in ("local", "scripted"):
        done = environment.run("duplex", "plugins", "doctor", name)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", list(Kind))
def test_the_templates_of_every_kind_came_along(environment: Any, kind: Kind) -> None:
    done = environment.run("duplex", "new-plugin", "some-voice", "--kind", kind, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert {"ci.yml", "test_conformance.py"} <= set(done.stdout.split())


def test_the_demo_page_and_all_it_loads_came_along(environment: Any) -> None:
    with serving(environment, "scripted") as url:
        page = fetched(url).decode()
        loaded = re.findall(r'(?:src|href)="(?!data:|http)([^"#]+)"', page)
        assert loaded
        assert all(fetched(f"{url}/{path.lstrip('/')}") for path in loaded)


def test_a_stock_client_talks_to_a_new_plugin(written: Any, speech: Path) -> None:
    with serving(written, "other-voice") as url:
        done = written.run("python", SCRIPTS / "stock_client.py", url, speech)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["status"] == "completed"
    assert answer["text"].startswith("I heard ")
    assert answer["heard_ms"] == 4 * 250


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_frame_locked_plugin_talks_within_five_minutes_of_nothing() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPTS / "new_user.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
