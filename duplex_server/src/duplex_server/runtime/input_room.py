"""How much more input a session takes: figures the engine publishes and a caller reads.

Reading needs no hop to the engine thread, so that a connection may ask before every append. The
figures trail the engine by what is on its way to it; the caller counts that itself. How much of the
input only the client can let go of takes the engine some counting: it is asked for that only when
something does not fit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from .loop_calls import call_on

__all__ = ["InputRoom", "Room", "RoomLimits"]

PLACES_FOR_OTHERS = 64
"""Of the places for waiting commands, those that appends may not take."""


class Room(Enum):
    """Whether something fits: now, later, or never by waiting."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class RoomLimits:
    """What a session may hold: input bytes, commands that wait, turns that wait."""

    input_bytes: int
    commands: int
    turns: int


class InputRoom:
    """Shared by the caller of one session and the engine.

    Some of the input goes only when the client commits, clears or cancels: it is *held*. The rest
    drains by itself.
    """

    __slots__ = (
        "_bytes_wanted",
        "_closed",
        "_commands",
        "_held",
        "_limits",
        "_lock",
        "_sent",
        "_sent_commands",
        "_taken",
        "_taken_commands",
        "_total",
        "_turns",
        "_waiters",
    )

    def __init__(self, limits: RoomLimits) -> None:
        self._limits = limits
        self._total = 0
        self._held: int | None = None
        self._bytes_wanted = False
        self._commands = 0
        self._turns = 0
        self._sent = 0
        self._taken = 0
        self._sent_commands = 0
        self._taken_commands = 0
        self._closed = False
        self._lock = threading.Lock()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def send(self, count: int) -> bool:
        """Caller: a command with so many bytes of input is about to go to the engine.

        False: so many are on their way already that it must not go; nothing was counted.
        """
        if self._sent_commands - self._taken_commands >= self._limits.commands:
            return False
        self._sent += count
        self._sent_commands += 1
        return True

    def unsend(self, count: int) -> None:
        """Caller: the command counted last did not go."""
        self._sent -= count
        self._sent_commands -= 1

    def taken(self, count: int) -> None:
        """Engine: such a command arrived."""
        self._taken += count
        self._taken_commands += 1

    @property
    def on_the_way(self) -> int:
        """Commands sent and not yet taken."""
        return self._sent_commands - self._taken_commands

    @property
    def pending_bytes(self) -> int:
        """Input the session has, with what is on its way to it."""
        return self._total + self._sent - self._taken

    @property
    def wants_held(self) -> bool:
        """Engine: somebody waits for bytes, so ``held`` should be published."""
        return self._bytes_wanted and bool(self._waiters)

    def publish(self, *, total: int, commands: int, turns: int, held: int | None = None) -> None:
        """Engine: what the session has now; ``held`` None: not counted."""
        self._total = total
        self._held = held
        self._commands = commands
        self._turns = turns
        if self._waiters:
            self._wake()

    def close(self) -> None:
        """Engine: the session ends; nobody waits any longer."""
        self._closed = True
        self._wake()

    def room(self, count: int, *, turn: bool = False) -> Room:
        """Whether a command with ``count`` bytes fits; ``turn``: it takes a pending turn too.

        ``NEVER`` is said only once the engine has counted what is held; until then ``LATER``.
        """
        limits = self._limits
        if (self._held or 0) + count > limits.input_bytes:
            return Room.NEVER
        self._bytes_wanted = self._total + self._sent - self._taken + count > limits.input_bytes
        if self._bytes_wanted:
            return Room.LATER
        places = limits.commands - PLACES_FOR_OTHERS if count else limits.commands
        if self._commands + self.on_the_way >= places:
            return Room.LATER
        if turn and self._turns >= limits.turns:
            return Room.LATER
        return Room.NOW

    async def wait(self, count: int, ask: Callable[[], object], *, turn: bool = False) -> bool:
        """Wait until it fits. False: waiting would not help, or the session ended.

        ``ask`` has the engine publish how much is held, in its own time.
        """
        while not self._closed:
            room = self.room(count, turn=turn)
            if room is not Room.LATER:
                return room is Room.NOW
            await self._news(count, ask, turn=turn)
        return False

    async def _news(self, count: int, ask: Callable[[], object], *, turn: bool) -> None:
        """Wait until something is published, unless that made room in between."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        entry = (loop, waiter)
        with self._lock:
            self._waiters.append(entry)
        try:
            if self._held is None and not self._closed:
                ask()
            if not self._closed and self.room(count, turn=turn) is Room.LATER:
                await waiter
        finally:
            with self._lock:
                # A new list: the engine looks at the present one without the lock.
                self._waiters = [each for each in self._waiters if each is not entry]

    def _wake(self) -> None:
        with self._lock:
            waiters, self._waiters = self._waiters, []
        for loop, waiter in waiters:
            call_on(loop, partial(_finish, waiter))


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
