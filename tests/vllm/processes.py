"""Looking at processes of the operating system."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

__all__ = ["descendants", "eventually", "is_there"]


def descendants(pid: int) -> dict[int, str]:
    """Processes that a process started, directly or not: their commands by their ids."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            command = (entry / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            child = int(entry.name)
            found |= {child: command, **descendants(child)}
    return found


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def eventually(condition: Callable[[], bool], patience_s: float = 30.0) -> None:
    async with asyncio.timeout(patience_s):
        while not condition():  # noqa: ASYNC110 - no event of this loop tells it
            await asyncio.sleep(0.05)
