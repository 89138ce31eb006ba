"""Events on their way to one reader, within a budget that is exact to the byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from duplex_sdk.errors import DuplexError
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    DuplexEvent,
    ErrorEvent,
    ResponseDone,
    SessionClosed,
)

from .event_size import EventSizer, event_size

__all__ = ["DuplexOutputOverflowError", "OutputLimits", "OutputQueue", "RemovedAudio"]

TERMINAL_BYTES = 4096
DETAILS_TOO_LONG = "close_details_exceed_output_limit"


class DuplexOutputOverflowError(DuplexError):
    """An event does not fit; the queue is as it was.

    Attributes:
        limit: the budget that is used up.
    """

    def __init__(self, limit: Literal["bytes", "events"]) -> None:
        super().__init__(f"the output buffer is full: no more {limit}")
        self.limit = limit


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """Budget of one session's output.

    Attributes:
        max_bytes: of ordinary events.
        max_events: of ordinary events.
        reserve_bytes: on top, for errors and endings of responses.
        reserve_events: on top, for the same.
        stall_timeout_s: a reader that takes nothing for so long while events wait is stalled.
    """

    max_bytes: int = 2 * 1024 * 1024
    max_events: int = 512
    reserve_bytes: int = 64 * 1024
    reserve_events: int = 8
    stall_timeout_s: float = 5.0

    def __post_init__(self) -> None:
        if min(self.max_bytes, self.max_events, self.reserve_bytes, self.reserve_events) <= 0:
            raise ValueError("all limits of an output queue must be above 0")


@dataclass(frozen=True, slots=True)
class RemovedAudio:
    """What an invalidation took out of the queue."""

    duration_ms: float = 0.0
    size: int = 0
    events: int = 0


class _Budget:
    """Bytes and events of one class."""

    __slots__ = ("bytes", "events", "max_bytes", "max_events")

    def __init__(self, max_bytes: int, max_events: int) -> None:
        self.max_bytes = max_bytes
        self.max_events = max_events
        self.bytes = 0
        self.events = 0

    def take(self, size: int) -> bool:
        """Count one event in; False, and nothing is counted: it does not fit."""
        if self.bytes + size > self.max_bytes or self.events >= self.max_events:
            return False
        self.bytes += size
        self.events += 1
        return True

    def remove(self, size: int) -> None:
        self.bytes -= size
        self.events -= 1

    @property
    def more_than_half(self) -> bool:
        return 2 * self.bytes > self.max_bytes or 2 * self.events > self.max_events


# A tuple and no class of its own: one is made for every event.
_Entry = tuple[DuplexEvent, int, _Budget]


class OutputQueue:
    """A first-in first-out queue with one reader. Pure: locks and waking are the shell's.

    Args:
        limits: the budget.
    """

    __slots__ = (
        "_closed",
        "_entries",
        "_held",
        "_held_settled",
        "_held_valid",
        "_limits",
        "_ordinary",
        "_reserve",
        "_sizer",
        "_terminal",
        "_waiting_since",
    )

    def __init__(self, limits: OutputLimits) -> None:
        self._limits = limits
        self._sizer = EventSizer()
        # A list, which is short nearly always: an empty deque takes 760 bytes per session.
        self._entries: list[_Entry] = []
        self._ordinary = _Budget(limits.max_bytes, limits.max_events)
        self._reserve = _Budget(limits.reserve_bytes, limits.reserve_events)
        self._held: DuplexEvent | None = None
        self._held_valid = False
        self._held_settled = False
        self._terminal: SessionClosed | None = None
        self._closed = False
        self._waiting_since = 0.0

    @property
    def pending_bytes(self) -> int:
        """Bytes of all queued events; the held one and the terminal do not count."""
        return self._ordinary.bytes + self._reserve.bytes

    @property
    def pending_events(self) -> int:
        """Number of queued events."""
        return len(self._entries)

    @property
    def closed(self) -> bool:
        """Whether nothing more is taken in."""
        return self._closed

    @property
    def exhausted(self) -> bool:
        """Whether ``get`` will give None for ever."""
        return self._closed and not self._entries and self._terminal is None

    @property
    def readable(self) -> bool:
        """Whether ``get`` would give an event now."""
        return bool(self._entries) or self._terminal is not None

    def put(self, event: DuplexEvent, now: float) -> bool:
        """Take in an event; a session's terminal closes the queue.

        Args:
            event: must not change any more.
            now: seconds.

        Returns:
            False when the queue is closed: the event is ignored.

        Raises:
            DuplexOutputOverflowError: it does not fit.
        """
        if self._closed:
            return False
        if isinstance(event, SessionClosed):
            self.close(event)
            return True
        size = self._sizer.size(event)
        budget = self._ordinary if self._ordinary.take(size) else self._reserve_for(event, size)
        if not self._entries:
            self._waiting_since = now
        self._entries.append((event, size, budget))
        return True

    def get(self, now: float) -> DuplexEvent | None:
        """Hand out the next event and hold it; the one held before is done with.

        Returns:
            None when there is nothing; see ``exhausted``.
        """
        self._held = None
        self._held_valid = False
        self._held_settled = False
        self._waiting_since = now
        if self._entries:
            self._held, size, budget = self._entries.pop(0)
            budget.remove(size)
        else:
            self._held, self._terminal = self._terminal, None
        self._held_valid = self._held is not None
        return self._held

    def is_valid(self, event: DuplexEvent) -> bool:
        """Whether an event handed out may still be delivered; of audio only the held one may."""
        if not isinstance(event, AudioDelta):
            return True
        return event is self._held and self._held_valid

    def settle(self, event: DuplexEvent) -> bool:
        """``is_valid``, and if so the event counts as delivered: no invalidation takes it back."""
        valid = self.is_valid(event)
        if valid and event is self._held:
            self._held_settled = True
        return valid

    def invalidate(self, response_id: str, through_epoch: int) -> RemovedAudio:
        """Remove audio of a response up to an epoch; the order of all else stays.

        The event the reader holds becomes invalid if it is such audio, and counts as removed
        unless it was settled.
        """
        kept: list[_Entry] = []
        duration, size, count = 0.0, 0, 0
        for entry in self._entries:
            event, taken, budget = entry
            if not _is_audio_of(event, response_id, through_epoch):
                kept.append(entry)
                continue
            budget.remove(taken)
            duration += _duration_ms(event)
            size += taken
            count += 1
        self._entries = kept
        held = self._held
        if held is not None and self._takes_back_held(response_id, through_epoch):
            self._held_valid = False
            duration += _duration_ms(held)
            count += 1
        return RemovedAudio(duration, size, count)

    def close(self, terminal: SessionClosed | None = None) -> None:
        """Take in nothing more; what is queued stays readable, then the terminal. Once."""
        if self._closed:
            return
        self._closed = True
        if terminal is not None and event_size(terminal) > TERMINAL_BYTES:
            terminal = msgspec.structs.replace(terminal, reason=DETAILS_TOO_LONG, event={})
        self._terminal = terminal

    @property
    def much_waits(self) -> bool:
        """Whether more than half of the budget is used and more can come."""
        return self._ordinary.more_than_half and not self._closed

    def holds_back(self, now: float) -> bool:
        """Whether further stage output should wait: much is queued, and the reader reads."""
        if not self.much_waits:
            return False
        return now - self._waiting_since < self._limits.stall_timeout_s

    def _takes_back_held(self, response_id: str, through_epoch: int) -> bool:
        if self._held is None or self._held_settled or not self._held_valid:
            return False
        return _is_audio_of(self._held, response_id, through_epoch)

    def _reserve_for(self, event: DuplexEvent, size: int) -> _Budget:
        if isinstance(event, ErrorEvent | ResponseDone) and self._reserve.take(size):
            return self._reserve
        full = self._ordinary.events >= self._ordinary.max_events
        raise DuplexOutputOverflowError("events" if full else "bytes")


def _is_audio_of(event: DuplexEvent, response_id: str, through_epoch: int) -> bool:
    return (
        isinstance(event, AudioDelta)
        and event.response_id == response_id
        and event.epoch is not None
        and event.epoch <= through_epoch
    )


def _duration_ms(event: DuplexEvent) -> float:
    return event.duration_ms if isinstance(event, AudioDelta) else 0.0
