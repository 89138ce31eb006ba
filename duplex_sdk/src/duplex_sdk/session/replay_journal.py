"""Numbered events kept for a client that comes back."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from duplex_sdk.errors import DuplexError

__all__ = ["JournalGapError", "JournalPositionError", "Journaled", "ReplayJournal"]

_encode = msgspec.json.Encoder().encode


class JournalGapError(DuplexError):
    """Events after that number are lost: a client must begin a new session."""


class JournalPositionError(DuplexError):
    """A number that was never given out."""


class Journaled(msgspec.Struct, frozen=True):
    """An event ready to be sent.

    Attributes:
        seq: its number; None once the journal has overflowed.
        frame: its JSON, with the number.
        overflowed: this event was too much; the client must be told before it is sent.
    """

    seq: int | None
    frame: bytes
    overflowed: bool = False


class _Entry(msgspec.Struct, frozen=True, gc=False):
    seq: int
    frame: bytes
    at: float


class ReplayJournal:
    """Numbers events 1, 2, 3, ... and keeps them within a budget of bytes and age.

    Args:
        max_bytes: of JSON kept; one event beyond it ends replay for good.
        ttl_s: how long an event is kept.
        keeping: False to number only, until ``keep`` is called.
    """

    def __init__(self, max_bytes: int, ttl_s: float, *, keeping: bool = True) -> None:
        if max_bytes <= 0 or ttl_s <= 0:
            raise ValueError("a journal's limits must be above 0")
        self._max_bytes = max_bytes
        self._ttl_s = ttl_s
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self._newest = 0
        self._boundary = 0
        self._keeping = keeping
        self._overflowed = False

    @property
    def newest(self) -> int:
        """The highest number given out, 0 before the first."""
        return self._newest

    @property
    def boundary(self) -> int:
        """The highest number that cannot be replayed any more."""
        return self._boundary

    @property
    def byte_count(self) -> int:
        """Bytes of all events kept."""
        return self._bytes

    @property
    def overflowed(self) -> bool:
        """Whether replay is over for good."""
        return self._overflowed

    def keep(self) -> None:
        """Keep events from now on; the older ones are lost."""
        self._keeping = True

    def append(self, payload: Mapping[str, Any], now: float) -> Journaled:
        """Number an event and keep it, before it is sent.

        Args:
            payload: the event as JSON; it is not changed.
            now: seconds.
        """
        if self._overflowed:
            return Journaled(None, _encode(payload))
        self.prune(now)
        seq = self._newest + 1
        frame = _encode({**payload, "server_event_seq": seq})
        if not self._keeping:
            self._newest = self._boundary = seq
            return Journaled(seq, frame)
        if self._bytes + len(frame) > self._max_bytes:
            self._overflow()
            return Journaled(None, _encode(payload), overflowed=True)
        self._newest = seq
        self._entries.append(_Entry(seq, frame, now))
        self._bytes += len(frame)
        return Journaled(seq, frame)

    def acknowledge(self, seq: int) -> None:
        """The client has everything up to this number; again or backward changes nothing.

        Raises:
            JournalPositionError: never given out.
        """
        if not 0 <= seq <= self._newest:
            raise JournalPositionError(f"no event {seq} was sent; the newest is {self._newest}")
        while self._entries and self._entries[0].seq <= seq:
            self._drop_oldest()

    def prune(self, now: float) -> None:
        """Forget events that are too old."""
        while self._entries and now - self._entries[0].at > self._ttl_s:
            self._drop_oldest()

    def replay_after(self, seq: int, now: float) -> tuple[bytes, ...]:
        """The frames a client has missed, unchanged and in order.

        Args:
            seq: the last number it received, 0 for none.
            now: seconds.

        Raises:
            JournalGapError: some of them are gone.
            JournalPositionError: never given out.
        """
        self.prune(now)
        if self._overflowed or seq < self._boundary:
            raise JournalGapError(f"events after {seq} cannot be replayed")
        if seq > self._newest:
            raise JournalPositionError(f"no event {seq} was sent; the newest is {self._newest}")
        return tuple(entry.frame for entry in self._entries if entry.seq > seq)

    def _drop_oldest(self) -> None:
        oldest = self._entries.popleft()
        self._bytes -= len(oldest.frame)
        self._boundary = oldest.seq

    def _overflow(self) -> None:
        self._overflowed = True
        self._entries.clear()
        self._bytes = 0
        self._boundary = self._newest
