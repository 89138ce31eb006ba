"""From a command to a connected worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from duplex_sdk.stage import StageLoadError
from duplex_sdk.stage.worker import SECRET_VARIABLE
from duplex_sdk.stage.worker.interpreter import environment_for
from duplex_sdk.stage.worker.process import WorkerProcess

from .running_worker import RunningWorker
from .worker_channel import ChannelOwner, WorkerChannel

__all__ = ["LaunchedWorker", "launch_worker"]

START_TIMEOUT_S = 60.0
"""A worker that has not called by then will not; importing the SDK takes a second at most."""


@dataclass(slots=True)
class LaunchedWorker(RunningWorker):
    """A worker's process and, once it called, the stream to it.

    Attributes:
        process: it runs until it is killed or ends.
        exited: done when the process has ended.
        secret: what it expects in the first frame.
        channel: None until it called.
    """

    process: WorkerProcess
    exited: asyncio.Future[None]
    secret: str
    channel: WorkerChannel | None = None

    @property
    def pid(self) -> int | None:
        """Its process id while it lives."""
        return self.process.pid

    @property
    def end_and_last_line(self) -> str:
        """How the process ended, and the last it printed: of a traceback, the exception."""
        end, line = self.process.describe_end(), self.process.last_line
        return f"{end}; its last line: {line}" if line else end

    def describe_end(self) -> str:
        """See ``RunningWorker``."""
        return self.process.describe_end()

    def kill(self) -> None:
        """See ``RunningWorker``; the processes that it started end, too."""
        self.process.kill()
        if self.channel is not None:
            self.channel.abort()

    def lost(self) -> None:
        """See ``RunningWorker``; the process says by itself when it has ended."""


async def launch_worker(
    owner: ChannelOwner,
    *,
    python: Path | None,
    name: str,
    on_line: Callable[[str], None],
) -> LaunchedWorker:
    """Start a worker and wait for its call.

    Args:
        owner: hears what comes over the channel.
        python: interpreter to run it with; None: the one that runs this.
        name: for people.
        on_line: called on another thread for each line the worker prints.

    Raises:
        StageLoadError: it could not be started, or ended before it called. No process is left.
    """
    try:
        # The folder is readable to us alone, and so is the socket in it.
        with (
            tempfile.TemporaryDirectory(prefix="duplex-", ignore_cleanup_errors=True) as folder,
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening,
        ):
            path = f"{folder}/engine"
            listening.bind(path)
            listening.listen(1)
            listening.setblocking(False)
            worker = _start(f"unix:{path}", python, name, on_line)
            try:
                stream = await _called(worker, listening, name)
                await _connect(worker, owner, stream)
            except BaseException:
                worker.kill()
                await asyncio.shield(worker.exited)
                raise
            return worker
    except OSError as error:
        raise StageLoadError(f"{name}: no worker could be started: {error}") from error


async def _connect(worker: LaunchedWorker, owner: ChannelOwner, stream: socket.socket) -> None:
    channel = worker.channel = WorkerChannel(owner)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: channel, stream)


def _start(
    address: str, python: Path | None, name: str, on_line: Callable[[str], None]
) -> LaunchedWorker:
    loop = asyncio.get_running_loop()
    exited: asyncio.Future[None] = loop.create_future()

    def on_exit() -> None:
        # A closed loop waits for nobody any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, exited)

    secret = secrets.token_urlsafe(32)
    process = WorkerProcess(
        _command(address, python),
        {**environment_for(python), SECRET_VARIABLE: secret, "PYTHONUNBUFFERED": "1"},
        name=name,
        on_line=on_line,
        on_exit=on_exit,
    )
    process.start()
    return LaunchedWorker(process, exited, secret)


def _command(address: str, python: Path | None) -> list[str]:
    level = logging.getLevelName(logging.getLogger("duplex_server").getEffectiveLevel()).lower()
    return [
        str(python or sys.executable),
        # The working folder is nobody's library.
        "-P",
        "-m",
        "duplex_sdk.stage.worker",
        "--connect",
        address,
        "--log-level",
        level,
        "--dies-with-parent",
    ]


async def _called(worker: LaunchedWorker, listening: socket.socket, name: str) -> socket.socket:
    accepting = asyncio.ensure_future(asyncio.get_running_loop().sock_accept(listening))
    try:
        await asyncio.wait(
            (accepting, worker.exited),
            timeout=START_TIMEOUT_S,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if accepting.done():
            stream: socket.socket = accepting.result()[0]
            stream.setblocking(False)
            return stream
    finally:
        accepting.cancel()
    if worker.exited.done():
        raise StageLoadError(
            f"{name}: its worker did not start: {worker.end_and_last_line}",
            "the worker's environment needs duplex-sdk and the plugin",
        )
    raise StageLoadError(f"{name}: its worker did not call within {START_TIMEOUT_S:g} s")


def _settle(exited: asyncio.Future[None]) -> None:
    if not exited.done():
        exited.set_result(None)
