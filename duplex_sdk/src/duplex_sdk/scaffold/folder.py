"""From files in memory to a folder on disk: the whole of it, or nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from .errors import ProjectWriteError

__all__ = ["write_project"]

_FOLDER_MODE = 0o777


def write_project(files: Mapping[PurePosixPath, bytes], folder: Path) -> None:
    """Make ``folder`` with these files in it.

    They are written beside it under another name, and the folder gets its own name last. So there
    is never half a project, and nothing that exists is touched, whatever happens at the same time.

    Args:
        files: contents by path inside the folder.
        folder: where; its parent exists, it does not.

    Raises:
        ProjectWriteError: it exists already, or the system refuses; nothing is left behind.
    """
    # A link that leads nowhere exists too.
    if os.path.lexists(folder):
        raise ProjectWriteError(
            f"{folder.name} is already there, and nothing is ever overwritten",
            hint="choose another name, or move it away",
        )
    try:
        _write_beside(files, folder)
    except OSError as error:
        raise ProjectWriteError(
            f"cannot write the folder {folder.name} in {folder.parent}: {error.strerror or error}",
            hint="go to a folder where you may write, and have room",
        ) from error


def _write_beside(files: Mapping[PurePosixPath, bytes], folder: Path) -> None:
    beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for path, content in files.items():
            file = beside / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        # What is temporary is private; a project is as open as the user's other folders.
        beside.chmod(_FOLDER_MODE & ~_umask())
        beside.rename(folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _umask() -> int:
    """The process's mask; the system tells it only to who sets it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
