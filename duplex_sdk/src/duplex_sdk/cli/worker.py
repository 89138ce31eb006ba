"""``duplex worker``: lend this machine to engines elsewhere."""

from __future__ import annotations

import enum
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from duplex_sdk.errors import DuplexError

from .messages import print_error

if TYPE_CHECKING:
    from duplex_sdk.stage.worker.listener import WorkerListener

__all__ = ["register"]

_WRONG_USAGE = 2
_DEFAULT_WORKERS = 8

logger = logging.getLogger(__name__)


class LogLevel(enum.Enum):
    """How much workers tell."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("worker")(worker)


def worker(
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where engines come to; port 0: a free one.")
    ] = "127.0.0.1:9100",
    max_workers: Annotated[
        int, typer.Option(min=1, help="How many replicas may run here at once.")
    ] = _DEFAULT_WORKERS,
    log_level: Annotated[
        LogLevel,
        typer.Option(metavar="debug|info|warning|error", help="What workers tell engines."),
    ] = LogLevel.INFO,
) -> None:
    """Run stages here for servers on other machines that know $DUPLEX_WORKER_SECRET.

    What is said travels unencrypted. Where others could listen in, put a tunnel:
    WireGuard, or ssh -L.
    """
    # What lending takes is imported only by who lends: `duplex --help` stays quick.
    from duplex_sdk.stage.worker import SECRET_VARIABLE
    from duplex_sdk.stage.worker.address import host_and_port
    from duplex_sdk.stage.worker.listener import WorkerListener

    # Not inherited: what is started here gets secrets of its own.
    secret = os.environ.pop(SECRET_VARIABLE, "")
    try:
        address = host_and_port(listen)
        listening = _bound(address)
        listener = WorkerListener(
            listening, secret, max_workers=max_workers, log_level=log_level.value
        )
    except ValueError as error:
        hint = f"set {SECRET_VARIABLE} to the same long random text here and at the server"
        print_error(DuplexError(str(error), hint=hint if "secret" in str(error) else None))
        raise typer.Exit(_WRONG_USAGE) from error
    except OSError as error:
        raise DuplexError(f"cannot listen on {listen}: {error.strerror}") from error
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    _serve_until_signal(listener, listening)


def _bound(address: tuple[str, int]) -> socket.socket:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        # From here on callers wait instead of being refused.
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening


def _serve_until_signal(listener: WorkerListener, listening: socket.socket) -> None:
    host, port = listening.getsockname()[:2]
    # Waiting for a lock would not end when another thread is the one that gets the signal.
    woken, waker = socket.socketpair()
    with woken, waker:
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        threading.Thread(target=listener.serve, name="listener", daemon=True).start()
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        typer.echo(f"workers for engines that come to {place}")
        sys.stdout.flush()
        if not ipaddress.ip_address(host).is_loopback:
            logger.warning("what engines and workers say is not encrypted; see --help")
        woken.recv(1)
        signal.set_wakeup_fd(-1)
    listener.close()
