"""``python -m duplex_sdk.stage.worker --connect ADDRESS``: run a stage's model for an engine.

The engine starts it; a person only where a worker runs on another machine. The secret that the
engine will present is taken from the environment, where other users of the machine cannot read it.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import sys

from .address import connect
from .engine_link import EngineLink
from .here import become_worker
from .log_lines import send_logs
from .messages import SECRET_VARIABLE
from .worker import REFUSED, Worker

_PR_SET_PDEATHSIG = 1
_WRONG_USAGE = 2


def main(arguments: list[str]) -> int:
    """Connect and work; returns the exit code."""
    options = _parser().parse_args(arguments)
    secret = os.environ.pop(SECRET_VARIABLE, "")
    if not secret:
        print(f"error: ${SECRET_VARIABLE} is not set", file=sys.stderr)
        return _WRONG_USAGE
    if options.dies_with_parent:
        _die_with_parent()
    try:
        link = EngineLink(connect(options.connect))
    except (OSError, ValueError) as error:
        print(f"error: no engine at {options.connect}: {error}", file=sys.stderr)
        return REFUSED
    become_worker()
    send_logs(link, logging.getLevelName(options.log_level.upper()))
    return Worker(link, secret).run()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m duplex_sdk.stage.worker")
    parser.add_argument("--connect", required=True, metavar="unix:PATH|tcp:HOST:PORT")
    parser.add_argument(
        "--log-level", default="info", choices=("debug", "info", "warning", "error", "critical")
    )
    parser.add_argument(
        "--dies-with-parent",
        action="store_true",
        help="be killed when the thread that started this process ends",
    )
    return parser


def _die_with_parent() -> None:
    """Leave no orphan, not even one that is stopped or hangs in native code.

    A worker that runs sees its engine go by the closed stream; this is for one that cannot look.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # A model's own threads, or a call that never returns, must not keep the process alive.
    os._exit(code)
