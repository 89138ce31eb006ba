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
        for child in map(int, _words(children)):
            yield child
            yield from descendants(child)


def shared_memory_of(pid: int) -> set[str]:
    """Files of shared memory that a process and those it started have open now."""
    return {
        word
        for each in (pid, *descendants(pid))
        for word in _words(f"/proc/{each}/maps")
        if word.startswith(_SHARED_MEMORY) and os.path.exists(word)
    }


def _words(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().split()
    except OSError:
        # It ended meanwhile, or is not ours to look at.
        return []
