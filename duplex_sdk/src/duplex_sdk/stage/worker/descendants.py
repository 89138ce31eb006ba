"""Processes that a process started, and what they hold."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

__all__ = ["descendants", "shared_memory_of"]

_SHARED_MEMORY = "/dev/shm/"


def descendants(pid: int) -> Iterator[int]:
    """Ids of the processes that a process started, directly or not.

    Each thread of it is asked, not all processes of the system: there may be thousands. Empty where
    the system does not tell.
    """
    for children in glob.glob(f"/proc/{pid}/task/*/children"):
        for line in _lines(children):
            for child in map(int, line.split()):
                yield child
                yield from descendants(child)


def shared_memory_of(pid: int) -> set[str]:
    """Files of shared memory that a process and those it started have open now.

    Found by their inodes: a semaphore gets its name after it was opened under another.
    """
    inodes = {
        int(fields[4])
        for each in (pid, *descendants(pid))
        for fields in map(str.split, _lines(f"/proc/{each}/maps"))
        if len(fields) > 5 and fields[5].startswith(_SHARED_MEMORY)
    }
    if not inodes:
        return set()
    with os.scandir(_SHARED_MEMORY) as files:
        return {file.path for file in files if file.inode() in inodes}


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readlines()
    except OSError:
        # It ended meanwhile, or is not ours to look at.
        return []
