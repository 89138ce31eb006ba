"""``duplex dev``: a plugin served from its sources; each change is tried before it takes over."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from duplex_sdk.cli.messages import print_error
from duplex_sdk.errors import DuplexError

from .dev_source import PluginSource, SourceWatch
from .listening_socket import bind_socket

__all__ = ["run_dev"]

_LOOK_EVERY_S = 0.3
_STOP_S = 15.0


def run_dev(folder: Path, host: str, port: int, arguments: Sequence[str]) -> int:
    """Serve the plugin of a folder until a signal comes.

    Args:
        folder: of the plugin's project.
        host: to listen on.
        port: to listen on; 0: a free one.
        arguments: further ones of ``duplex serve``.

    Returns:
        The exit code.

    Raises:
        DuplexError: the folder is no plugin project, or the port is taken.
    """
    PluginSource.read(folder)
    signal.signal(signal.SIGTERM, _interrupt)
    with bind_socket(host, port) as listening, tempfile.TemporaryDirectory() as site:
        number = listening.getsockname()[1]
        served = ["--host", host, "--port", str(number), *arguments]
        desk = _Desk(folder, listening, Path(site), served)
        try:
            desk.run()
        except KeyboardInterrupt:
            _say("stopping")
        finally:
            desk.stop()
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class _Desk:
    """Which server serves, and which one is being tried."""

    def __init__(
        self, folder: Path, listening: socket.socket, site: Path, arguments: Sequence[str]
    ) -> None:
        self._folder = folder
        self._listening = listening
        self._site = site
        self._arguments = arguments
        self._watch = SourceWatch(folder)
        self._serving: _Server | None = None
        self._trial: _Server | None = None

    def run(self) -> None:
        """Serve for ever."""
        self._try()
        while True:
            if self._watch.changed():
                _say("changed: trying the new version")
                self._try()
            self._look()
            time.sleep(_LOOK_EVERY_S)

    def stop(self) -> None:
        """End what runs."""
        for server in (self._trial, self._serving):
            if server is not None:
                server.stop()

    def _try(self) -> None:
        if self._trial is not None:
            self._trial.stop()
            self._trial = None
        try:
            source = PluginSource.read(self._folder)
        except DuplexError as error:
            print_error(error)
            return
        source.write_metadata(self._site)
        self._trial = _Server(
            self._listening,
            [str(self._site), str(source.import_root)],
            ["--plugin", source.plugin, *self._arguments],
        )

    def _look(self) -> None:
        trial, serving = self._trial, self._serving
        if serving is not None and serving.ended:
            _say("the server ended; a change starts it again")
            serving.stop()
            self._serving = serving = None
        if trial is None:
            return
        if trial.ready:
            self._serving, self._trial = trial, None
            if serving is not None:
                serving.stop()
                _say("the new version serves")
        elif trial.ended:
            self._trial = None
            trial.stop()
            goes_on = "the one before goes on" if self._serving else "a change tries again"
            _say(f"this version does not start; {goes_on}")


class _Server:
    """A child that serves on the common socket once it can."""

    def __init__(
        self, listening: socket.socket, paths: Sequence[str], arguments: Sequence[str]
    ) -> None:
        self._ready, told = os.pipe()
        handed = (listening.fileno(), told)
        before = os.environ.get("PYTHONPATH")
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "duplex_server.cli.dev_child",
                *map(str, handed),
                *arguments,
            ],
            pass_fds=handed,
            stdin=subprocess.PIPE,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([*paths, *([before] if before else [])]),
                # Compiled files go by seconds: two edits within one would be taken for one.
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            # Ctrl-C is for this command; it stops its servers itself.
            start_new_session=True,
        )
        os.close(told)

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    @property
    def ready(self) -> bool:
        """Whether it has begun to serve."""
        readable, _, _ = select.select([self._ready], [], [], 0)
        return bool(readable and os.read(self._ready, 1)) and not self.ended

    def stop(self) -> None:
        """End it in an orderly way; it is given some seconds."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        os.close(self._ready)


def _say(text: str) -> None:
    print(f"dev: {text}", flush=True)
