"""Logs a person can read: one line each on stderr, no secrets, no tracebacks for bad clients."""

from __future__ import annotations

import logging

__all__ = ["configure_logs"]

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_QUIET = ("uvicorn", "uvicorn.error", "asyncio")


class _PeerFaults(logging.Filter):
    """Uvicorn logs a client's invalid UTF-8 as an exception of its own; one line tells it."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], UnicodeDecodeError):
            record.exc_info = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def configure_logs(level: str) -> None:
    """Log to stderr from this level on; the transport's own chatter from warnings on."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT, datefmt="%H:%M:%S"))
    handler.addFilter(_PeerFaults())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Its lines would show URLs and, at debug, whole headers, so also somebody's key.
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
