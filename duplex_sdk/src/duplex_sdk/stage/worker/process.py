"""One worker as a process of the operating system: started, listened to, ended, never left over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence

__all__ = ["WorkerProcess"]

_LONGEST_LINE = 2_000


class WorkerProcess:
    """Owns a child process and its process group; two threads of ours live as long as it does.

    One thread starts the process and waits for its end, so that a child that is to die with the
    thread that started it does so only when this process ends. The other reads what it prints.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        name: str,
        on_line: Callable[[str], None],
        on_exit: Callable[[], None],
        inherited: Sequence[int] = (),
    ) -> None:
        """Make a process that is not started.

        Args:
            command: program and arguments.
            environment: the whole of it.
            name: for debuggers.
            on_line: called on a thread of ours for each line it prints.
            on_exit: called on a thread of ours once, when it has ended or could not be started.
            inherited: descriptors of ours that it gets.
        """
        self._command = tuple(command)
        self._environment = dict(environment)
        self._name = name
        self._on_line = on_line
        self._on_exit = on_exit
        self._inherited = tuple(inherited)
        self._lock = threading.Lock()
        self._last_line = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._reaped = False
        self._trouble: str | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it lives."""
        return None if self._process is None or self._reaped else self._process.pid

    @property
    def last_line(self) -> str:
        """The last line it printed."""
        return self._last_line

    def start(self) -> None:
        """Start it, without waiting."""
        threading.Thread(target=self._keep, name=f"{self._name}-keeper", daemon=True).start()

    def kill(self) -> None:
        """End it and whatever it started, at once; ``on_exit`` follows. Safe at any time."""
        with self._lock:
            self._killed = True
            self._kill_group()

    def describe_end(self) -> str:
        """How it ended, in words, once ``on_exit`` was called."""
        if self._trouble is not None:
            return self._trouble
        code = None if self._process is None else self._process.returncode
        if code is None:
            return "it does not answer"
        if code >= 0:
            return f"it exited with code {code}"
        if code == -signal.SIGKILL:
            # Nothing else tells it to a person who looks for the reason.
            return "it was ended by SIGKILL, as the system does when memory runs out"
        try:
            return f"it was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"it was ended by signal {-code}"

    def _keep(self) -> None:
        try:
            process = self._spawn()
        except OSError as error:
            self._trouble = f"it could not be started: {error}"
            self._on_exit()
            return
        if process is not None:
            self._wait(process)
        self._on_exit()

    def _spawn(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._killed:
                return None
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=self._inherited,
                # A group of its own: Ctrl-C is ours to handle, and its children end with it.
                start_new_session=True,
            )
            return self._process

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        pump = threading.Thread(
            target=self._read, args=(process,), name=f"{self._name}-output", daemon=True
        )
        pump.start()
        if hasattr(os, "waitid"):
            # Seen to be dead but not reaped: until then its number can be nobody else's.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:
            process.wait()
        with self._lock:
            self._kill_group()
            process.wait()
            self._reaped = True
        pump.join()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            while line := lines.readline(_LONGEST_LINE):
                # A progress bar writes over itself; of such a line the end is what a person sees.
                text = line.decode(errors="replace").rstrip().rpartition("\r")[2]
                if text:
                    self._last_line = text
                    self._on_line(text)

    def _kill_group(self) -> None:
        if self._process is not None and not self._reaped:
            # Gone already, with everything it started.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
