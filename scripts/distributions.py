"""`make dist`: the sdist and the wheel of every distribution, each wheel made from its sdist.

What users install is made in the same way, so a file that the sdist leaves out is missed here and
not by them.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

__all__ = ["build", "folders"]

ROOT = Path(__file__).resolve().parents[1]


def folders() -> tuple[Path, ...]:
    """The folders that are distributions; the root is none."""
    return tuple(sorted(path.parent for path in ROOT.glob("*/pyproject.toml")))


def build(target: Path) -> tuple[Path, ...]:
    """Build them all into ``target``, which is made if it is not there.

    Nothing is fetched: this interpreter's hatchling builds them.

    Returns:
        The wheels.

    Raises:
        subprocess.CalledProcessError: one cannot be built; hatchling has said why.
    """
    target = target.resolve()
    target.mkdir(parents=True, exist_ok=True)
    return tuple(_build_one(folder, target) for folder in folders())


def _build_one(folder: Path, target: Path) -> Path:
    sdist = _hatchling("sdist", folder, target)
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(sdist) as archive:
            archive.extractall(unpacked, filter="data")
        (project,) = Path(unpacked).iterdir()
        return _hatchling("wheel", project, target)


def _hatchling(kind: str, project: Path, target: Path) -> Path:
    """Call the build backend as an installer does: in the project's folder."""
    call = f"import hatchling.build, sys; print(hatchling.build.build_{kind}(sys.argv[1]))"
    command = [sys.executable, "-c", call, str(target)]
    done = subprocess.run(command, cwd=project, stdout=subprocess.PIPE, text=True, check=True)
    return target / done.stdout.strip().splitlines()[-1]


def main() -> int:
    """Build into the folder that the command line names."""
    for wheel in build(Path(sys.argv[1])):
        print(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
