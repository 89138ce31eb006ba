"""What is tried twice, and how often a run may need that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = """
from pathlib import Path
from second_tries import offer_second_tries

def pytest_collection_modifyitems(config, items):
    offer_second_tries(config, items, [Path(__file__).parent / "real"])
"""
FAILS_ONCE = """
import pytest
from pathlib import Path

@pytest.mark.parametrize("n", range({count}))
def test_it(n):
    seen = Path(__file__).with_name(f"seen {{n}}")
    first = not seen.exists()
    seen.touch()
    assert not first, "the first try"
"""
FAILS_IN_THE_END_ONCE = """
import pytest
from pathlib import Path

@pytest.fixture
def leaves_something():
    yield
    seen = Path(__file__).with_name("seen")
    first = not seen.exists()
    seen.touch()
    assert not first, "something is left"

def test_it(leaves_something):
    pass
"""
FAILS = "def test_it():\n    assert False, 'always'\n"
IN_CI = ("--max-suite-reruns=2", "--rerun-show-tracebacks")


def run(folder: Path, *flags: str, **files: str) -> subprocess.CompletedProcess[str]:
    (folder / "real").mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {Path(__file__).parent}\n")
    for name, text in files.items():
        place = folder / "real" if name.startswith("real") else folder
        (place / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *flags, "."]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("text", [FAILS_ONCE.format(count=2), FAILS_IN_THE_END_ONCE])
def test_a_second_try_that_was_needed_is_told_with_its_reason(text: str, tmp_path: Path) -> None:
    done = run(tmp_path, *IN_CI, real=text)
    assert done.returncode == 0, done.stdout
    assert "rerun" in done.stdout.splitlines()[-1]
    assert "AssertionError: the first try" in done.stdout or "something is left" in done.stdout


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    done = run(tmp_path, *IN_CI, real=FAILS)
    assert done.returncode == 1
    assert "1 failed, 1 rerun" in done.stdout


def test_too_many_second_tries_are_a_failure(tmp_path: Path) -> None:
    done = run(tmp_path, *IN_CI, real=FAILS_ONCE.format(count=3))
    assert done.returncode == 1
    assert "1 failed, 2 passed, 2 rerun" in done.stdout


def test_elsewhere_a_failure_is_a_failure(tmp_path: Path) -> None:
    done = run(tmp_path, *IN_CI, pure=FAILS_ONCE.format(count=1))
    assert done.returncode == 1
    assert "1 failed" in done.stdout
    assert "rerun" not in done.stdout.splitlines()[-1]


def test_nobody_who_did_not_ask_gets_a_second_try(tmp_path: Path) -> None:
    done = run(tmp_path, real=FAILS_ONCE.format(count=1))
    assert done.returncode == 1
    assert "rerun" not in done.stdout.splitlines()[-1]
