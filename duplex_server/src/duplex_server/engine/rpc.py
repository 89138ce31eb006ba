"""Questions from any thread, answered once by the engine."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from typing import Any

__all__ = ["RpcRouter"]

logger = logging.getLogger(__name__)


class RpcRouter:
    """Hands each result to the waiter registered under its key.

    Thread-safe. After ``fail_all`` every present and future waiter gets that exception.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: dict[str, Future[Any]] = {}
        self._failure: BaseException | None = None

    def register(self, key: str) -> Future[Any]:
        """A future for the result of ``key``; keys are never used twice at a time."""
        future: Future[Any] = Future()
        with self._lock:
            if self._failure is None:
                self._waiters[key] = future
                return future
        future.set_exception(self._failure)
        return future

    def forget(self, key: str) -> None:
        """Nobody waits for this result any more."""
        with self._lock:
            self._waiters.pop(key, None)

    def resolve(self, key: str, result: Any) -> None:
        """Hand a result to its waiter; a late one is dropped with a warning."""
        waiter = self._take(key)
        if waiter is None:
            logger.warning("nobody waits for the answer to %s any more", key)
        elif waiter.set_running_or_notify_cancel():
            waiter.set_result(result)

    def reject(self, key: str, error: BaseException) -> None:
        """Fail a waiter."""
        waiter = self._take(key)
        if waiter is not None and waiter.set_running_or_notify_cancel():
            waiter.set_exception(error)

    def fail_all(self, error: BaseException) -> None:
        """The engine is gone: fail everybody, now and later."""
        with self._lock:
            self._failure = error
            waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            if waiter.set_running_or_notify_cancel():
                waiter.set_exception(error)

    def _take(self, key: str) -> Future[Any] | None:
        with self._lock:
            return self._waiters.pop(key, None)
