"""Whatever a worker started or left lying ends with it, however it ends.

A worker can be killed before it can say anything to processes that a library of its model started,
and those need not notice; or all of them are, and nobody is left to clear up behind them. A shell
beside them notices.
"""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["GroupGuard"]

# Reads what is to be removed until its input ends, which it does with the one who writes.
_GUARD = """
group="$1"; shift
while IFS= read -r path; do set -- "$@" "$path"; done
kill -s KILL -- "-$group" 2>/dev/null
rm -rf -- "$@"
"""


class GroupGuard:
    """Ends the process group of this process when this process is gone, then removes its files.

    Only for one that leads its group, as a worker does that an engine started: a person's terminal
    may hold others.
    """

    def __init__(self) -> None:
        """Begin to watch; does nothing where there is no group to be led."""
        self._shell: subprocess.Popen[bytes] | None = None
        if sys.platform == "win32" or os.getpgrp() != os.getpid():
            return
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(os.getpgrp())],
            # Nobody else holds the other end: it closes when this process is no more.
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Who ends the group from outside is not to end the guard with it.
            start_new_session=True,
        )

    @property
    def watches(self) -> bool:
        """Whether there is a group that will be ended."""
        return self._shell is not None

    def remove_at_the_end(self, *paths: str) -> None:
        """Files and folders that are to be gone as well; those that are gone by then don't matter.

        Raises:
            ValueError: a path that cannot be told in a line.
        """
        if any("\n" in path for path in paths):
            raise ValueError("a path holds a line break")
        if self._shell is not None and self._shell.stdin is not None:
            self._shell.stdin.write("".join(f"{path}\n" for path in paths).encode())
            self._shell.stdin.flush()
