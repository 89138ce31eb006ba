"""``DuplexOutputBuffer``: an ``OutputQueue`` between the engine's thread and a reader's loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import SessionClosed
from duplex_sdk.session.output_queue import DuplexOutputOverflowError, OutputLimits, OutputQueue

from .delivery import DeliveryPort
from .loop_calls import call_on
from .output_wakes import EACH_ALONE, Wakes

if TYPE_CHECKING:
    from duplex_sdk.protocol.duplex import DuplexEvent

__all__ = ["DuplexOutputBuffer", "DuplexOutputOverflowError", "OutputLimits"]


class DuplexOutputBuffer(DeliveryPort):
    """Bounded output of one session; the lock is held for queue operations only.

    Until ``attach`` the reader is woken by each ``put``; afterwards the engine wakes the readers
    of all sessions together, once per turn of its loop.

    Args:
        limits: the budget.
        clock: seconds; the same on both sides.

    Attributes:
        limits: the budget.
        end_reason: what the terminal event says, taken or not; None before it and without one.
    """

    __slots__ = (
        "_clock",
        "_ends",
        "_lock",
        "_on_closed",
        "_queue",
        "_room_made",
        "_room_wanted",
        "_waiter",
        "_wakes",
        "end_reason",
        "limits",
    )

    def __init__(
        self, limits: OutputLimits | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or OutputLimits()
        self._queue = OutputQueue(self.limits)
        self._clock = clock
        self._lock = threading.Lock()
        self._waiter: asyncio.Future[None] | None = None
        self._ends: tuple[asyncio.Future[None], ...] = ()
        self._wakes: Wakes = EACH_ALONE
        self._room_made: Callable[[], object] | None = None
        self._room_wanted = False
        self._on_closed: Callable[[], object] | None = None
        self.end_reason: str | None = None

    # The engine's side

    def attach(self, wakes: Wakes, room_made: Callable[[], object]) -> None:
        """The engine's: share its wake-ups; ``room_made`` is called on the reader's thread."""
        self._wakes = wakes
        self._room_made = room_made

    def put(self, event: DuplexEvent) -> bool:
        """Take an event in without waiting; False: closed, the event is ignored.

        Raises:
            DuplexOutputOverflowError: there is no room; nothing changed.
        """
        ends = isinstance(event, SessionClosed)
        with self._lock:
            if ends:
                self._note_end(event)
            taken = self._queue.put(event, self._clock())
            waiting = self._waiter is not None
        if waiting:
            self._wakes.note(self)
        if ends and taken:
            self._tell_end()
        return taken

    def invalidate(self, response_id: str, through_epoch: int) -> float:
        """Take back queued audio of a response up to an epoch; returns how many ms of it."""
        with self._lock:
            return self._queue.invalidate(response_id, through_epoch).duration_ms

    def holds_back(self) -> bool:
        """Whether stage outputs should wait; if so ``room_made`` is called when they may go on.

        It isn't called for a reader that stalls: look again after ``limits.stall_timeout_s``.
        """
        if not self._queue.much_waits:
            # What only the engine adds to cannot grow meanwhile, so this needs no lock.
            return False
        with self._lock:
            self._room_wanted = self._queue.holds_back(self._clock())
            return self._room_wanted

    def on_closed(self, callback: Callable[[], object]) -> None:
        """Have a callback called once when nothing more is taken in, on whatever thread."""
        self._on_closed = callback

    # The reader's side

    async def get(self) -> DuplexEvent | None:
        """The next event, waiting for it; None for ever after the end.

        Raises:
            RuntimeError: somebody else waits already.
        """
        while True:
            with self._lock:
                if self._queue.readable or self._queue.closed:
                    event = self._queue.get(self._clock())
                    room = self._room_wanted and not self._queue.holds_back(self._clock())
                    self._room_wanted &= not room
                    waiter = None
                else:
                    waiter = self._new_waiter()
            if waiter is None:
                if room and self._room_made is not None:
                    self._room_made()
                return event
            try:
                await waiter
            finally:
                with self._lock:
                    if self._waiter is waiter:
                        self._waiter = None

    def is_valid(self, event: DuplexEvent) -> bool:
        """Whether an event taken may still be delivered."""
        with self._lock:
            return self._queue.is_valid(event)

    @contextmanager
    def guard(self, event: DuplexEvent) -> Iterator[bool]:
        """``is_valid``, and it stays as it is inside the block; valid counts as delivered.

        Holds the lock: do not await inside, nor call this buffer.
        """
        with self._lock:
            yield self._queue.settle(event)

    async def wait_closed(self) -> None:
        """Wait until nothing more is taken in; what is queued may still be there."""
        with self._lock:
            if self._queue.closed:
                return
            end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._ends += (end,)
        await end

    # Both sides'

    @property
    def closed(self) -> bool:
        """Whether nothing more is taken in."""
        return self._queue.closed

    @property
    def pending_bytes(self) -> int:
        """Bytes of all queued events."""
        return self._queue.pending_bytes

    @property
    def pending_events(self) -> int:
        """Number of queued events."""
        return self._queue.pending_events

    def close(self, terminal: SessionClosed | None = None) -> None:
        """Take in nothing more; what is queued stays readable, then the terminal. Once."""
        with self._lock:
            self._note_end(terminal)
            self._queue.close(terminal)
            self._room_made = None
        self._wakes.note(self)
        self._wakes = EACH_ALONE
        self._tell_end()

    def wake_reader(self) -> None:
        """Wake the waiting reader; call on its loop."""
        with self._lock:
            waiter, self._waiter = self._waiter, None
        _finish(waiter)

    @property
    def reader_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop of the waiting reader, None: nobody waits."""
        waiter = self._waiter
        return None if waiter is None else waiter.get_loop()

    def _note_end(self, event: DuplexEvent | None) -> None:
        if isinstance(event, SessionClosed) and not self._queue.closed:
            self.end_reason = event.reason

    def _new_waiter(self) -> asyncio.Future[None]:
        if self._waiter is not None and not self._waiter.done():
            raise RuntimeError("this session's output already has a reader")
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    def _tell_end(self) -> None:
        with self._lock:
            ends, self._ends = self._ends, ()
            callback, self._on_closed = self._on_closed, None
        if callback is not None:
            callback()
        for end in ends:
            call_on(end.get_loop(), partial(_finish, end))


def _finish(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
