"""Stage outputs that wait for their client: a model may be faster than a person can listen.

While the output buffer is more than half full and its reader is alive, what stages produce waits
here, so that a long answer made in a moment does not overflow a client that reads. And however much
a step hands out, one turn of the loop carries out only so much of it for one session: the rest goes
on in the turns after it, behind what arrived meanwhile. Commands never pass through here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from duplex_sdk.session.inputs import Input, OutputRefused, StageOutputReceived, StagesIdle

if TYPE_CHECKING:
    from .output_buffer import DuplexOutputBuffer
    from .services import EngineServices

__all__ = ["HeldOutputs"]

MOST_PER_TURN = 64
"""Outputs of one session in one turn of the loop: some five milliseconds' worth."""

StageInput = StageOutputReceived | StagesIdle


class HeldOutputs:
    """The outputs of one session between its stages and its mailbox, in order."""

    __slots__ = (
        "_bytes",
        "_closed",
        "_feed",
        "_left",
        "_limit",
        "_output",
        "_services",
        "_stalled",
        "_waiting",
    )

    def __init__(
        self,
        output: DuplexOutputBuffer,
        services: EngineServices,
        feed: Callable[[Input], None],
        *,
        limit: int,
    ) -> None:
        self._output = output
        self._services = services
        self._feed = feed
        self._limit = limit
        # Made when first needed: an empty deque takes 760 bytes, and most sessions never wait.
        self._waiting: deque[tuple[StageInput, int]] | None = None
        self._bytes = 0
        self._closed = False
        self._left = MOST_PER_TURN
        self._stalled = services.timers.deadline(self.release)

    def __len__(self) -> int:
        return len(self._waiting or ())

    def take(self, item: StageInput, size: int) -> None:
        """Hand an output on now, or keep it until there is room."""
        if self._closed:
            return
        if self._left and not self._waiting and not self._output.holds_back():
            self._hand_on(item)
            return
        if self._bytes + size > self._limit:
            self._feed(OutputRefused((), "stage_output"))
            return
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append((item, size))
        self._bytes += size
        self._rearm()

    def release(self) -> None:
        """Hand on what may go now: the reader took something, or has stopped reading."""
        while self._left and self._waiting and not self._output.holds_back():
            item, size = self._waiting.popleft()
            self._bytes -= size
            self._hand_on(item)
        self._rearm()

    def drop_older(self, epoch: int) -> None:
        """Forget what a cancel made stale."""
        if self._waiting is None:
            return
        kept = deque(pair for pair in self._waiting if _epoch(pair[0]) >= epoch)
        self._bytes -= sum(size for _, size in self._waiting) - sum(size for _, size in kept)
        self._waiting = kept

    def close(self) -> None:
        """Take nothing more and drop what waits."""
        self._closed = True
        self._waiting = None
        self._bytes = 0
        self._stalled.close()
        self._feed = _ignore

    def _hand_on(self, item: StageInput) -> None:
        self._left -= 1
        if not self._left:
            # Nobody counts turns: a new share is given out in the turn after the old one was used
            # up, so that no turn has more than one.
            self._services.loop.call_soon(self._next_share)
        self._feed(item)

    def _next_share(self) -> None:
        self._left = MOST_PER_TURN
        self.release()

    def _rearm(self) -> None:
        # A reader that takes something calls ``release``; one that stalls is found by the clock.
        wait = self._output.limits.stall_timeout_s
        self._stalled.set(self._services.clock() + wait if self._waiting else None)


def _epoch(item: StageInput) -> int:
    return item.epoch if isinstance(item, StagesIdle) else item.output.epoch


def _ignore(item: Input) -> None:
    """Takes the place of the session once it ends: a reference to it would be a cycle."""
