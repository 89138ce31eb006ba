"""Looking at other processes, which start, end and are reaped while they are looked at.

Every test that asks the operating system about a process asks here.
"""

from __future__ import annotations

import contextlib
import glob

import psutil

__all__ = ["children", "descendants", "exists", "runs", "waited_for_a_core_s"]


def children(pid: int | None = None) -> set[int]:
    """Ids of the processes whose parent is ``pid``, or this process.

    Those that have ended and were not waited for are among them. A process that is gone has none.
    """
    try:
        return {child.pid for child in psutil.Process(pid).children()}
    except psutil.NoSuchProcess:
        return set()


def descendants(pid: int) -> dict[int, str]:
    """Processes that a process started, directly or not: their commands by their ids."""
    found: dict[int, str] = {}
    for process in psutil.Process(pid).children(recursive=True):
        try:
            found[process.pid] = " ".join(process.cmdline())
        except psutil.NoSuchProcess:
            continue
    return found


def exists(pid: int) -> bool:
    """Whether the system still knows it: it runs, or it has ended and nobody waited for it."""
    return psutil.pid_exists(pid)


def runs(pid: int) -> bool:
    """Whether it does anything yet; without a reaper in its container an orphan stays a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def waited_for_a_core_s() -> float:
    """Seconds that this process's threads stood ready to run on a core that others had, in sum.

    0 where the system does not tell. Threads that ended meanwhile are not among them.
    """
    waited_ns = 0
    for task in glob.glob("/proc/self/task/*/schedstat"):
        with contextlib.suppress(OSError), open(task, encoding="ascii") as schedstat:
            waited_ns += int(schedstat.read().split()[1])
    return waited_ns / 1e9
