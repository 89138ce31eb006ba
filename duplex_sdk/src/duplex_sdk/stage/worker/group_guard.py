"""Whatever a worker started ends with it, however it ends.

A worker can be killed before it can say anything to processes that a library of its model started,
and those need not notice. A shell that waits for the worker's end notices.
"""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["GroupGuard"]

_WAIT_THEN_END_THE_GROUP = "read -r _; kill -KILL 0"


class GroupGuard:
    """Ends the process group of this process when this process is gone.

    Only for one that leads its group, as a worker does that an engine started: a person's terminal
    may hold others.
    """

    def __init__(self) -> None:
        """Begin to watch; does nothing where there is no group to be led."""
        self._shell: subprocess.Popen[bytes] | None = None
        if sys.platform == "win32" or os.getpgrp() != os.getpid():
            return
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _WAIT_THEN_END_THE_GROUP],
            # Nobody else holds the other end: it closes when this process is no more.
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def watches(self) -> bool:
        """Whether there is a group that will be ended."""
        return self._shell is not None
