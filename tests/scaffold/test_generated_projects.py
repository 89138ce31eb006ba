"""New projects are sound before anything in them is changed.

Those of kind `frame` need torch, which the common environment has not: `make test-scaffold` runs
them in the environment of a model plugin that has it.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.scaffold import Kind, ProjectName, render_project, write_project
from patience import PATIENCE_S

# A run of the kit, or of mypy over torch, takes half a minute of a machine that does nothing else.
pytestmark = pytest.mark.timeout(300)

TORCH = importlib.util.find_spec("torch") is not None
KINDS = [
    pytest.param(
        kind,
        marks=pytest.mark.skipif(
            kind is Kind.FRAME and not TORCH, reason="no torch here: make test-scaffold"
        ),
    )
    for kind in Kind
]

CONVERSATION = """
import asyncio, sys
from duplex_sdk.testing.session_lab import tone
from duplex_server.testing import Harness

async def converse(name, kind, patience_s):
    manual = {"turn_detection": None}
    async with (
        asyncio.timeout(float(patience_s)),
        Harness().server(name) as server,
        server.client(manual) as client,
    ):
        answers = client.responses()
        await client.append_audio(tone(500, 24_000))
        if kind == "frame":
            await client.append_audio(tone(1500, 24_000, level=0.0))
        else:
            await client.commit(response_create=True)
        answer = await anext(answers)
        sound = b"".join([piece async for piece in answer.audio()])
        print((await answer.wait()).response.status, len(sound) > 0)

asyncio.run(converse(*sys.argv[1:]))
"""


@pytest.fixture(scope="module", params=KINDS)
def generated(request: pytest.FixtureRequest, install: Callable[[str, Kind], Any]) -> Any:
    return install(f"acme-{request.param}", request.param)


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared, because most of the time goes into what all projects import."""
    return tmp_path_factory.mktemp("mypy")


def test_it_is_installed_with_its_type_marker(generated: Any) -> None:
    package = generated.site / generated.name.package
    assert (package / "py.typed").exists()
    assert (package / "__init__.py").exists()


def test_it_is_listed_and_sound(generated: Any) -> None:
    listed = json.loads(generated.run("duplex_sdk.cli", "plugins", "list", "--json").stdout)
    found = [p for p in listed["plugins"] if p["name"] == generated.name.plugin]
    assert [p["distribution"] for p in found] == [generated.name.distribution]
    assert found[0]["trouble"] is None
    done = generated.run("duplex_sdk.cli", "plugins", "doctor", generated.name.plugin)
    assert done.returncode == 0, done.stdout


def test_its_own_tests_pass(generated: Any) -> None:
    done = generated.run("pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "failed" not in done.stdout


def test_its_tests_notice_a_model_that_says_nothing(generated: Any) -> None:
    code = next(path for path in ("stage.py", "model.py") if _there(generated, path))
    source = generated.site / generated.name.package / code
    right = source.read_text()
    try:
        source.write_text(right.replace("audio=", "arrays={} if True else "))
        done = generated.run("pytest", "-q", "-p", "no:cacheprovider", "tests/test_conversation.py")
    finally:
        source.write_text(right)
    assert done.returncode == 1, done.stdout


def _there(generated: Any, file: str) -> bool:
    return bool((generated.site / generated.name.package / file).exists())


def test_its_types_hold(generated: Any, mypy_cache: Path) -> None:
    done = generated.run("mypy", "--cache-dir", mypy_cache)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_linted_and_laid_out(generated: Any) -> None:
    for command in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        done = generated.run("ruff", *command, ".")
        assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_served_and_answers(generated: Any) -> None:
    (generated.project / "converse.py").write_text(CONVERSATION)
    kind = generated.name.plugin.removeprefix("acme-")
    done = generated.run("converse", generated.name.plugin, kind, str(PATIENCE_S))
    assert done.stdout.split() == ["completed", "True"], done.stderr


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("name", ["a", "a-" * 18 + "abcd"], ids=["shortest", "longest"])
def test_a_name_of_any_length_is_linted_and_laid_out(name: str, kind: Kind, tmp_path: Path) -> None:
    write_project(render_project(ProjectName(name), kind), tmp_path / name)
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", tmp_path / name],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_smallest_plugin_is_sixty_lines_of_code_at_most() -> None:
    files = render_project(ProjectName("tiny"), Kind.MINIMAL)
    code = [content.decode() for path, content in files.items() if path.parts[0] == "src"]
    lines = [line for text in code for line in text.splitlines() if line.strip()]
    assert len([line for line in lines if not line.strip().startswith('"""')]) <= 60
