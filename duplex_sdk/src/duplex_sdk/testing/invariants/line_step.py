"""What goes over a client's line as a law sees it: an event sent, a client that comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Resumed", "Sent"]


@dataclass(slots=True)
class Sent:
    """An event went out to a client.

    Attributes:
        number: that it carries; None: none.
        last: the number before it on this connection, or the one the connection began behind.
        announced: the client was told that events can no longer be kept for it.
    """

    number: int | None
    last: int
    announced: bool


@dataclass(slots=True)
class Resumed:
    """A client came back and said what it had seen.

    Attributes:
        seen: the last number it received.
        replayed: number and frame of what it is sent, in order; None: refused for want of events.
        sent: every numbered frame there ever was, by number.
        boundary: the highest number that was acknowledged, or grew too old.
        overflowed: too much was kept once.
    """

    seen: int
    replayed: tuple[tuple[int, bytes], ...] | None
    sent: Mapping[int, bytes]
    boundary: int
    overflowed: bool
