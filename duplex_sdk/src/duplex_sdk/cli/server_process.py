"""A server of one's own, for a command that was given no address."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections import deque
from types import TracebackType
from typing import Self

from duplex_sdk.errors import DuplexError

__all__ = ["ServerProcess", "ServerStartError"]

START_TIMEOUT_S = 60.0
"""A server that has said nothing for so long will not start; one that loads models says so."""

STOP_TIMEOUT_S = 15.0
KEPT_LINES = 40
_ADDRESS = re.compile(r"(?:https?|wss?)://127\.0\.0\.1:(\d+)")


class ServerStartError(DuplexError):
    """The server ended, or said nothing, instead of listening."""


class ServerProcess:
    """`duplex serve` as a child on a free port of 127.0.0.1, an async context manager.

    Attributes:
        url: where it listens, once entered.
    """

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self._said: deque[str] = deque(maxlen=KEPT_LINES)
        self._follower: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._patience: asyncio.Timeout | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        """Id of the server's process.

        Raises:
            RuntimeError: it was not started.
        """
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process.pid

    def kill(self) -> None:
        """End it as a crash does: no goodbye to anybody."""
        if self._process is not None:
            self._process.kill()

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "duplex_sdk.cli",
            "serve",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            *self._arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # One thread per model is what keeps many sessions in real time.
            env={"OMP_NUM_THREADS": "1", **os.environ, "COLUMNS": "200"},
            # Ctrl-C is for the command in front; it stops the server itself.
            start_new_session=True,
        )
        self._follower = asyncio.create_task(self._follow(self._process))
        try:
            async with asyncio.timeout(START_TIMEOUT_S) as self._patience:
                await self._listening.wait()
        except BaseException as error:
            self._patience = None
            await self._stop()
            if isinstance(error, TimeoutError):
                raise self._silent() from error
            raise
        if not self.url:
            await self._stop()
            raise self._silent()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    def _silent(self) -> ServerStartError:
        said = "\n".join(self._said) or "(it said nothing)"
        return ServerStartError(
            f"the server did not start; its last words:\n{said}",
            hint="`duplex serve` in another terminal shows more",
        )

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            text = line.decode(errors="replace").rstrip()
            self._said.append(text)
            if self._patience is not None and not self._listening.is_set():
                self._patience.reschedule(asyncio.get_running_loop().time() + START_TIMEOUT_S)
            if not self.url and (match := _ADDRESS.search(text)):
                self.url = f"ws://127.0.0.1:{match.group(1)}"
                self._listening.set()
        self._listening.set()

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._follower is not None:
            await self._follower
