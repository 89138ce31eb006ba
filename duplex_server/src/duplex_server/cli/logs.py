"""Logs a person can read: one line each on stderr, no secrets, no tracebacks for bad clients."""

from __future__ import annotations

import logging

__all__ = ["configure_logs"]

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_REFUSED_UPGRADE = "ASGI callable returned without completing handshake."
_QUIET = ("uvicorn", "uvicorn.error", "asyncio")


class _TransportNoise(logging.Filter):
    """Two things uvicorn takes for faults of the server, and they are none.

    A client's invalid UTF-8 is logged as an exception; one line tells it. An upgrade answered with
    a refusal is logged as an application that forgot to answer.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.msg == _REFUSED_UPGRADE:
            return False
        if record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError):
            record.exc_info = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def configure_logs(level: str) -> None:
    """Log to stderr from this level on; the transport's own chatter from warnings on."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT, datefmt="%H:%M:%S"))
    handler.addFilter(_TransportNoise())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Its lines would show URLs and, at debug, whole headers, so also somebody's key.
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
