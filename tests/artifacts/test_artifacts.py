"""Sdists and wheels hold what they should, and work where nothing else of ours is."""

from __future__ import annotations

import email
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent.name for path in ROOT.glob("*/pyproject.toml"))

EVERY_DISTRIBUTION = pytest.mark.parametrize("folder", FOLDERS)


def stem(folder: str) -> str:
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    return f"{project['name'].replace('-', '_')}-{project['version']}"


def tracked(folder: str) -> set[str]:
    """Files of a folder that belong to the project, relative to it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (PurePosixPath(path) for path in listed.stdout.split("\0") if path)
    return {str(path.relative_to(folder)) for path in paths if (ROOT / path).exists()}


def wheel_of(folder: str, artifacts: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(artifacts / f"{stem(folder)}-py3-none-any.whl")


def test_every_distribution_of_ours_is_tried() -> None:
    assert {"duplex_sdk", "duplex_server", "plugins-local", "templates"} <= set(FOLDERS)


@EVERY_DISTRIBUTION
def test_the_wheel_holds_every_file_of_the_package_and_no_other(
    folder: str, artifacts: Path
) -> None:
    with wheel_of(folder, artifacts) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == {
        path.removeprefix("src/") for path in tracked(folder) if path.startswith("src/")
    }


@EVERY_DISTRIBUTION
def test_the_sdist_holds_all_that_is_tracked(folder: str, artifacts: Path) -> None:
    with tarfile.open(artifacts / f"{stem(folder)}.tar.gz") as sdist:
        packed = {name.partition("/")[2] for name in sdist.getnames()}
    assert tracked(folder) <= packed


@EVERY_DISTRIBUTION
def test_the_wheel_is_typed_licensed_and_described(folder: str, artifacts: Path) -> None:
    with wheel_of(folder, artifacts) as wheel:
        names = wheel.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        told = email.message_from_bytes(wheel.read(metadata))
    packages = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert {f"{package}/py.typed" for package in packages} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert told["Summary"]
    assert told["Requires-Python"] == ">=3.11"
    assert str(told.get_payload()).startswith("# ")
