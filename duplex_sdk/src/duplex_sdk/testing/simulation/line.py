"""The line between a server and a client in a simulation: numbered events, breaks, replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from duplex_sdk.session.replay_journal import JournalGapError, ReplayJournal
from duplex_sdk.testing.invariants.law import Tally, hold, laws_of
from duplex_sdk.testing.invariants.line_step import Resumed, Sent

if TYPE_CHECKING:
    from duplex_sdk.protocol.duplex import DuplexEvent

__all__ = ["Line"]

_JOURNAL_BYTES = 8_000
_TTL_S = 60.0


class Line:
    """Takes a session's events to its client as the serving layer does, with the real journal.

    Every event is numbered and kept before it is sent; a connection that breaks loses what was on
    its way, and the client says at its return what it has seen. Frames are stubs of the events: a
    journal does not look inside.

    Args:
        tally: where it is counted how often each law had something to look at.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._laws = laws_of("line")
        self._journal = ReplayJournal(_JOURNAL_BYTES, _TTL_S)
        self._sent: dict[int, bytes] = {}
        self._sent_at: dict[int, float] = {}
        self._followed = 0
        self._connected = True
        self._arriving: int | None = None
        self._began_behind = 0
        self._last = 0
        self._announced = False
        self._seen = 0
        self._acknowledged = 0

    def follow(self, events: Sequence[DuplexEvent], now: float) -> None:
        """Send what the session has told since the last time.

        Raises:
            LawBrokenError: a law is broken.
        """
        for event in events[self._followed :]:
            stub = {"type": event.type, "event_id": event.event_id}
            journaled = self._journal.append(stub, now)
            number = journaled.seq
            if number is not None:
                self._sent[number] = journaled.frame
                self._sent_at[number] = now
            elif journaled.overflowed and self._connected:
                self._announced = True
            if self._connected:
                self._send(number)
        self._followed = len(events)

    def arrive_only(self, frames: int) -> None:
        """The connection delivers so many more frames; then it is dead and nobody knows."""
        self._arriving = frames

    def break_off(self) -> None:
        """The server notices that the connection is gone."""
        self._connected = False

    def come_back(self, now: float) -> None:
        """The client has a new connection: it is sent what it missed, or told that this is lost.

        Raises:
            LawBrokenError: a law is broken.
        """
        try:
            missed: tuple[bytes, ...] | None = self._journal.replay_after(self._seen, now)
        except JournalGapError:
            missed = None
        replayed = None
        if missed is not None:
            replayed = tuple(
                (msgspec.json.decode(each)["server_event_seq"], each) for each in missed
            )
        lost, overflowed = self._lost(now), self._journal.overflowed
        resumed = Resumed(self._seen, replayed, self._sent, lost, overflowed)
        hold(self._laws[Resumed,], resumed, self._tally)
        if replayed is None:
            # It would open another session; nobody listens to this one.
            self._connected = False
            return
        self._connected, self._arriving, self._announced = True, None, False
        self._last = self._seen
        for number, _ in replayed:
            self._send(number)

    def acknowledge(self) -> None:
        """The client says how far it has everything."""
        self._acknowledged = max(self._acknowledged, self._seen)
        self._journal.acknowledge(self._seen)

    def _send(self, number: int | None) -> None:
        hold(self._laws[Sent,], Sent(number, self._last, self._announced), self._tally)
        if number is None:
            return
        self._last = number
        if self._arriving is not None:
            if self._arriving == 0:
                return
            self._arriving -= 1
        self._seen = number

    def _lost(self, now: float) -> int:
        """The highest number that may be gone, by our own account."""
        old = [number for number, at in self._sent_at.items() if now - at > _TTL_S]
        return max([self._acknowledged, *old])
