"""One call of an output queue as a law sees it, and the queue that holds the laws of queues."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from duplex_sdk.protocol.duplex import AudioDelta, SessionClosed, SessionExpired
from duplex_sdk.session.output_queue import DuplexOutputOverflowError, OutputLimits, OutputQueue

from .law import Tally, hold, laws_of

if TYPE_CHECKING:
    from duplex_sdk.protocol.duplex import DuplexEvent
    from duplex_sdk.session.output_queue import RemovedAudio

__all__ = [
    "Changing",
    "Cut",
    "Full",
    "Got",
    "Invalidated",
    "Over",
    "Put",
    "QueueLife",
    "ReadAll",
    "Refused",
    "WatchedQueue",
    "is_audio_of",
    "unchanged",
]


@dataclass(slots=True)
class QueueLife:
    """What must be in a queue, by our own account.

    Attributes:
        waits: events that were taken in and neither handed out nor invalidated, in order.
        written: how those that hold mappings were written when they were taken in.
        cut: up to which epoch audio of a response was invalidated.
        terminals: ends of the session that were handed out.
    """

    waits: deque[DuplexEvent] = field(default_factory=deque)
    written: dict[str, bytes] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    terminals: int = 0


# What laws look at is made for every call: plain slots, which frozen ones take ten times to fill.


@dataclass(slots=True)
class Put:
    """An event was offered.

    Attributes:
        event: it.
        refused: it found no room.
        before: bytes and events that waited before.
        queue: the queue now.
        limits: its budget.
        life: what must be in it now.
    """

    event: DuplexEvent
    refused: bool
    before: tuple[int, int]
    queue: OutputQueue
    limits: OutputLimits
    life: QueueLife


@dataclass(slots=True)
class Got:
    """An event was handed out.

    Attributes:
        event: it.
        expected: what was first in line; None: nothing waited.
        queue: the queue now.
        life: what must be in it now.
    """

    event: DuplexEvent
    expected: DuplexEvent | None
    queue: OutputQueue
    life: QueueLife


@dataclass(slots=True)
class Invalidated:
    """Audio of a response was taken back.

    Attributes:
        response_id: whose.
        through_epoch: up to which epoch.
        held: the event that the reader had, if it had one.
        removed: what the queue says of it.
        before: what waited before, in order.
        queue: the queue now.
    """

    response_id: str
    through_epoch: int
    held: DuplexEvent | None
    removed: RemovedAudio
    before: tuple[DuplexEvent, ...]
    queue: WatchedQueue


@dataclass(frozen=True, slots=True)
class ReadAll:
    """Its reader took all that there was.

    Attributes:
        queue: the queue.
        ends: of a session that were handed out.
    """

    queue: OutputQueue
    ends: int


# What else laws may ask for.


class Refused:
    """An event was offered and found no room."""


class Full:
    """An event was offered, and more waits than ordinary ones may take, or it was refused."""


class Over:
    """The end of the session was handed out, now or before."""


class Changing:
    """An event was handed out while some were known that hold mappings."""


class Cut:
    """An event was handed out after audio was taken back."""


_TERMINALS = frozenset({SessionClosed, SessionExpired})


def is_audio_of(event: DuplexEvent, response_id: str, through_epoch: int) -> bool:
    """Whether an invalidation concerns an event."""
    if type(event) is not AudioDelta or event.response_id != response_id:
        return False
    return event.epoch is not None and event.epoch <= through_epoch


class WatchedQueue(OutputQueue):
    """An output queue that keeps a second account, and holds the laws against every call.

    Args:
        limits: the budget.
        tally: where it is counted how often each law had something to look at.
    """

    def __init__(self, limits: OutputLimits, tally: Tally | None = None) -> None:
        super().__init__(limits)
        self._tally: Tally = Counter() if tally is None else tally
        self._laws = laws_of("queue")
        self._life = QueueLife()
        self._reader_has: DuplexEvent | None = None

    @classmethod
    def like(cls, queue: OutputQueue, tally: Tally | None = None) -> WatchedQueue:
        """An empty one with the budget of another."""
        return cls(queue._limits, tally)

    @property
    def waiting(self) -> list[DuplexEvent]:
        """The queued events, in order."""
        return [event for event, _, _ in self._entries]

    def put(self, event: DuplexEvent, now: float) -> bool:
        """Take in an event.

        Raises:
            DuplexOutputOverflowError: it does not fit.
            LawBrokenError: a law is broken.
        """
        life, before, was_open = self._life, (self.pending_bytes, len(self._entries)), True
        if self._closed or type(event) in _TERMINALS:
            was_open = False
        try:
            taken = super().put(event, now)
        except DuplexOutputOverflowError:
            refused = Put(event, True, before, self, self._limits, life)
            hold(self._laws[Put, Full, Refused], refused, self._tally)
            raise
        if was_open:
            life.waits.append(event)
            if _may_change(event):
                life.written[event.event_id] = _written(event)
            limits = self._limits
            if self.pending_bytes > limits.max_bytes or len(self._entries) > limits.max_events:
                put = Put(event, False, before, self, limits, life)
                hold(self._laws[Put, Full], put, self._tally)
        return taken

    def get(self, now: float) -> DuplexEvent | None:
        """Hand out the next event.

        Raises:
            LawBrokenError: a law is broken.
        """
        event = self._reader_has = super().get(now)
        if event is None:
            return None
        life = self._life
        got = Got(event, life.waits.popleft() if life.waits else None, self, life)
        kinds: tuple[type[Any], ...] = (Got,)
        if life.written:
            kinds = (*kinds, Changing)
        if life.cut:
            kinds = (*kinds, Cut)
        if life.terminals or type(event) in _TERMINALS:
            kinds = (*kinds, Over)
        hold(self._laws[kinds], got, self._tally)
        if type(event) in _TERMINALS:
            life.terminals += 1
        return event

    def invalidate(self, response_id: str, through_epoch: int) -> RemovedAudio:
        """Take audio back.

        Raises:
            LawBrokenError: a law is broken.
        """
        before = tuple(self._life.waits)
        removed = super().invalidate(response_id, through_epoch)
        life = self._life
        life.cut[response_id] = max(through_epoch, life.cut.get(response_id, -1))
        life.waits = deque(
            event for event in before if not is_audio_of(event, response_id, through_epoch)
        )
        held = self._reader_has
        taken = Invalidated(response_id, through_epoch, held, removed, before, self)
        hold(self._laws[Invalidated,], taken, self._tally)
        return removed

    def read_all(self) -> None:
        """Its reader says that nothing is left.

        Raises:
            LawBrokenError: a law is broken.
        """
        hold(self._laws[ReadAll,], ReadAll(self, self._life.terminals), self._tally)


_encode = msgspec.json.Encoder().encode


class _MappingsOf(dict[type["DuplexEvent"], tuple[str, ...]]):
    def __missing__(self, kind: type[DuplexEvent]) -> tuple[str, ...]:
        names = self[kind] = _mappings(kind)
        return names


_mappings_of = _MappingsOf()


def _may_change(event: DuplexEvent) -> bool:
    for name in _mappings_of[type(event)]:  # noqa: SIM110
        if getattr(event, name):
            return True
    return False


def _mappings(kind: type[DuplexEvent]) -> tuple[str, ...]:
    """The fields of an event that may hold a mapping, directly or in an object."""
    hints = get_type_hints(kind)
    return tuple(
        name
        for name in kind.__struct_fields__
        if any(word in str(hints[name]) for word in ("dict", "Mapping", "list", "ResponseObject"))
    )


def _written(event: DuplexEvent) -> bytes:
    return _encode(event)


def unchanged(event: DuplexEvent, life: QueueLife) -> bool | None:
    """Whether an event is written as when it was taken in; None: it holds nothing that changes."""
    written = life.written.pop(event.event_id, None)
    return None if written is None else written == _written(event)
