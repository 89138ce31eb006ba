"""A worker that was started for an engine on another machine, and its end."""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import threading
from collections.abc import Callable

from .interpreter import environment_for
from .messages import SECRET_VARIABLE
from .process import WorkerProcess

__all__ = ["SpawnedWorker"]

GRACE_S = 3.0
"""A worker sees by itself that its engine left; one that hangs or is stopped does not."""

_HUNG_UP = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)


class SpawnedWorker:
    """A process that speaks over a stream which this object watches from outside.

    The end of either brings about the end of the other, whatever state the process is in.
    """

    def __init__(
        self,
        stream: socket.socket,
        secret: str,
        *,
        name: str,
        log_level: str,
        on_line: Callable[[str], None],
        on_end: Callable[[SpawnedWorker], None],
    ) -> None:
        """Make a worker that is not started; the stream belongs to it from now on.

        Args:
            stream: connected and blocking.
            secret: what the engine will say in its first frame.
            name: for people.
            log_level: how much it tells its engine.
            on_line: called on a thread of ours for each line that it prints.
            on_end: called on a thread of ours once it is gone, or could not be started.
        """
        self.name = name
        self._stream = stream
        self._on_end = on_end
        self._ended = threading.Event()
        self._watch = threading.Thread(
            target=self._end_with_stream, name=f"{name}-stream", daemon=True
        )
        number = stream.fileno()
        self._process = WorkerProcess(
            [
                *(sys.executable, "-P", "-m", "duplex_sdk.stage.worker"),
                *("--connect", f"fd:{number}", "--log-level", log_level, "--dies-with-parent"),
            ],
            {**environment_for(None), SECRET_VARIABLE: secret, "PYTHONUNBUFFERED": "1"},
            name=name,
            on_line=on_line,
            on_exit=self._on_exit,
            inherited=(number,),
        )

    @property
    def pid(self) -> int | None:
        """Its process id while it lives."""
        return self._process.pid

    def start(self) -> None:
        """Start the process, without waiting."""
        self._watch.start()
        self._process.start()

    def kill(self) -> None:
        """End the process at once; ``on_end`` follows."""
        self._process.kill()

    def describe_end(self) -> str:
        """How it ended, in words, once ``on_end`` was called."""
        return self._process.describe_end()

    def _on_exit(self) -> None:
        self._ended.set()
        # The engine is to hear of it now, not when the last copy of the stream is closed.
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        self._watch.join()
        self._stream.close()
        self._on_end(self)

    def _end_with_stream(self) -> None:
        poll = select.poll()
        poll.register(self._stream, _HUNG_UP)
        while not any(happened & _HUNG_UP for _, happened in poll.poll()):
            pass
        if not self._ended.wait(GRACE_S):
            self._process.kill()
