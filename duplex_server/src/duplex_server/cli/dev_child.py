"""``duplex serve`` as ``duplex dev`` runs it: on a socket it is handed, saying when it is ready.

Called as ``python -m duplex_server.cli.dev_child SOCKET READY ARGUMENT...``: the numbers of the
listening socket and of a pipe that gets one byte. It ends when its standard input does.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

from duplex_sdk.cli.messages import print_error
from duplex_sdk.errors import DuplexError, PluginBrokenError

from .panel import print_panel
from .serve import run_serve
from .server import serve_until_signal
from .unit_timings import UnitTimings

if TYPE_CHECKING:
    from duplex_server.settings import ResolvedSettings

    from .stack import ServingStack

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Serve; returns the exit code."""
    listening, ready = socket.socket(fileno=int(arguments[0])), int(arguments[1])

    def tell(resolved: ResolvedSettings, stack: ServingStack, address: str) -> None:
        print_panel(resolved, stack, address)
        UnitTimings(stack.omni).start()
        os.write(ready, b"1")

    def serve(resolved: ResolvedSettings) -> int:
        return serve_until_signal(resolved, listening=listening, on_listening=tell)

    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        return run_serve(arguments[2:], serve=serve)
    except DuplexError as error:
        if error.__cause__ is not None:
            # Whoever writes the plugin needs the line that failed.
            traceback.print_exception(error.__cause__)
        if isinstance(error, PluginBrokenError):
            # Its own hint is for users of a package, who would install it anew.
            error = PluginBrokenError(str(error), hint="mend it and save: every change is tried")
        print_error(error)
        return 1


def _end_with_parent() -> None:
    # Not by ``sys.stdin``, whose lock the interpreter wants when it ends.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
