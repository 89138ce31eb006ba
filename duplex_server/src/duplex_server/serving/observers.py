"""Installed observers: each on a thread of its own, behind a queue that sessions never wait for."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterable

from duplex_sdk.discovery import Observer
from duplex_sdk.protocol.duplex import DuplexEvent

from duplex_server.runtime.unit_watch import UnitTiming

from .foreign_thread import ForeignThread, end_all
from .traces import SessionTrace

__all__ = ["ObserverThreads"]

_log = logging.getLogger(__name__)
_LONGEST_QUEUE = 1024
# How long a thread that has nothing to do sleeps before it looks whether the server ends.
_LOOK_AROUND_S = 0.2


class ObserverThreads:
    """All observers of a server. ``traced`` and what it returns belong to the serving loop.

    Args:
        observers: what installed packages offered.
        longest_queue: events one may be behind before it misses some.
    """

    def __init__(
        self, observers: Iterable[Observer] = (), *, longest_queue: int = _LONGEST_QUEUE
    ) -> None:
        self._threads = tuple(_ObserverThread(each, longest_queue) for each in observers)

    def traced(self, session_id: str, trace: SessionTrace) -> SessionTrace:
        """The trace of a session, told to all observers as well."""
        return _Watched(session_id, trace, self._threads) if self._threads else trace

    def close(self, timeout_s: float) -> None:
        """Let all observers take what is left, and end. Blocks.

        Args:
            timeout_s: longest wait for all together; a thread that goes on is left alone.
        """
        end_all(self._threads, timeout_s)


class _Watched(SessionTrace):
    def __init__(
        self, session_id: str, trace: SessionTrace, threads: tuple[_ObserverThread, ...]
    ) -> None:
        self._session_id = session_id
        self._trace = trace
        self._threads = threads
        self.wants_units = trace.wants_units

    def unit(self, timing: UnitTiming) -> None:
        self._trace.unit(timing)

    def event(self, event: DuplexEvent) -> None:
        self._trace.event(event)
        for thread in self._threads:
            thread.tell(self._session_id, event)

    def end(self) -> None:
        self._trace.end()


class _ObserverThread(ForeignThread):
    """One observer. Events are rendered on its thread: the loop hands over immutable ones."""

    def __init__(self, observer: Observer, longest_queue: int) -> None:
        super().__init__(f"observer {type(observer).__name__}")
        self._observer = observer
        self._events: queue.Queue[tuple[str, DuplexEvent]] = queue.Queue(longest_queue)
        self._missed = 0
        self._off = threading.Event()
        self.start()

    def tell(self, session_id: str, event: DuplexEvent) -> None:
        """Hand an event over; never waits."""
        if self._off.is_set():
            return
        try:
            self._events.put_nowait((session_id, event))
        except queue.Full:
            if not self._missed:
                _log.warning("%s is behind and misses events", self._name)
            self._missed += 1
        else:
            if self._missed:
                _log.warning("%s missed %d events", self._name, self._missed)
                self._missed = 0

    def _run(self) -> None:
        try:
            self._observe()
            self._observer.close()
        except (Exception, SystemExit):
            _log.exception("%s failed and is switched off", self._name)
            self._off.set()

    def _observe(self) -> None:
        while True:
            try:
                session_id, event = self._events.get(timeout=_LOOK_AROUND_S)
            except queue.Empty:
                if self.finishing.is_set():
                    return
                continue
            self._observer.session_event(session_id, event.to_realtime())
