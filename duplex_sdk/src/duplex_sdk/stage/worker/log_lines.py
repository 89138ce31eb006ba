"""The worker's log, carried to the engine's."""

from __future__ import annotations

import logging

from .engine_link import EngineLink, LinkLostError
from .messages import Log, LogLevel

__all__ = ["send_logs"]

_LONGEST = 20_000
_LEVELS: tuple[tuple[int, LogLevel], ...] = (
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO, "info"),
)


class _LinkHandler(logging.Handler):
    def __init__(self, link: EngineLink) -> None:
        super().__init__()
        self._link = link

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)[:_LONGEST]
            self._link.send(Log(_level(record.levelno), text))
        except LinkLostError:
            # Nobody is left to read it.
            self.setLevel(logging.CRITICAL + 1)
        except Exception:  # a record with broken arguments must not end what it tells about
            self.handleError(record)


def send_logs(link: EngineLink, level: int) -> None:
    """Send every record of this level and above to the engine, tracebacks included."""
    handler = _LinkHandler(link)
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(True)


def _level(number: int) -> LogLevel:
    return next((name for least, name in _LEVELS if number >= least), "debug")
