"""The engine's right to end a session by time, and who may take the session over."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal, NoReturn

from duplex_sdk.errors import DuplexError

__all__ = [
    "DuplexLeaseConfig",
    "DuplexLeaseState",
    "ExpiryReason",
    "LeaseActivity",
    "LeaseConflictError",
    "LeaseEndedError",
]

LeaseActivity = Literal[
    "append", "signal", "playback_ack", "heartbeat", "attach", "detach", "resume", "model_output"
]
ExpiryReason = Literal["disconnect_grace_expired", "idle_ttl_expired", "session_length_reached"]


class LeaseConflictError(DuplexError, ValueError):
    """The lease has moved on since the caller last saw it."""


class LeaseEndedError(DuplexError):
    """The session is over; its lease changes no more."""


@dataclass(frozen=True, slots=True)
class DuplexLeaseConfig:
    """How long a session may live.

    Attributes:
        idle_ttl_s: without any activity; None for ever.
        disconnect_grace_s: without a socket.
        max_session_s: in all; None without a limit.
    """

    idle_ttl_s: float | None = 300.0
    disconnect_grace_s: float = 30.0
    max_session_s: float | None = None


class DuplexLeaseState:
    """The lease of one session.

    Args:
        config: the limits.
        now: when the session opened, seconds; so are all times here.
    """

    __slots__ = (
        "_config",
        "_detached_at",
        "_generation",
        "_last_activity",
        "_length_over",
        "_operations",
        "_resumed_by",
        "_terminal_reason",
    )

    def __init__(self, config: DuplexLeaseConfig, now: float) -> None:
        self._config = config
        longest = config.max_session_s
        self._length_over = inf if longest is None else now + longest
        self._last_activity = now
        self._detached_at: float | None = None
        # A dict, which is empty nearly always: an empty set takes 216 bytes per session.
        self._operations: dict[str, None] = {}
        self._generation = 0
        self._resumed_by: str | None = None
        self._terminal_reason: str | None = None

    @property
    def generation(self) -> int:
        """0 at first; one more with each resume and with the end."""
        return self._generation

    @property
    def last_activity(self) -> float:
        """When somebody last showed interest."""
        return self._last_activity

    @property
    def detached_at(self) -> float | None:
        """Since when no socket is there; None while one is."""
        return self._detached_at

    @property
    def terminal_reason(self) -> str | None:
        """Why the session ended; None while it lives."""
        return self._terminal_reason

    @property
    def active_operations(self) -> frozenset[str]:
        """Work under way that holds off idle expiry."""
        return frozenset(self._operations)

    @property
    def working(self) -> bool:
        """Whether work is under way that holds off idle expiry."""
        return bool(self._operations)

    def touch(self, now: float, activity: LeaseActivity) -> None:
        """Somebody showed interest; a detached session stays detached.

        Raises:
            LeaseEndedError: the session is over.
        """
        if self._terminal_reason is not None:
            self._refuse(activity)
        self._last_activity = now

    def detach(self, now: float, *, expected_generation: int | None = None) -> bool:
        """The socket is gone; the grace begins. Once per generation, again changes nothing.

        Returns:
            Whether the grace began now.

        Raises:
            LeaseConflictError: another generation is current.
            LeaseEndedError: the session is over.
        """
        if self._terminal_reason is not None:
            self._refuse("detach")
        if expected_generation is not None:
            self._check_generation(expected_generation)
        if self._detached_at is not None:
            return False
        self._last_activity = now
        self._detached_at = now
        return True

    def resume(self, now: float, expected_generation: int, control_id: str) -> int:
        """A new socket takes the session; of several that expect one generation the first wins.

        Args:
            now: seconds.
            expected_generation: that the caller last saw.
            control_id: of this attempt; the same again is answered the same.

        Returns:
            The generation that this resume made.

        Raises:
            LeaseConflictError: another generation is current.
            LeaseEndedError: the session is over.
        """
        if self._terminal_reason is not None:
            self._refuse("resume")
        if control_id == self._resumed_by:
            return self._generation
        self._check_generation(expected_generation)
        self._generation += 1
        self._resumed_by = control_id
        self._detached_at = None
        self._last_activity = now
        return self._generation

    def begin_operation(self, operation_id: str) -> None:
        """Work begins that idle expiry must wait for; grace expiry does not.

        Raises:
            ValueError: the id is empty or in use.
            LeaseEndedError: the session is over.
        """
        if self._terminal_reason is not None:
            self._refuse("operation")
        if not operation_id or operation_id in self._operations:
            raise ValueError(f"a lease operation needs a fresh id, got {operation_id!r}")
        self._operations[operation_id] = None

    def end_operation(self, operation_id: str) -> None:
        """The work is over; unknown ids, also those that an end swept away, are ignored."""
        self._operations.pop(operation_id, None)

    def mark_terminal(self, reason: str) -> bool:
        """End the lease. The first call wins.

        Returns:
            Whether this one was it.
        """
        if self._terminal_reason is not None:
            return False
        self._terminal_reason = reason
        self._generation += 1
        self._detached_at = None
        self._operations.clear()
        self._resumed_by = None
        return True

    def expiry(self, now: float) -> ExpiryReason | None:
        """Why the session must end now, None if it may go on; a lost socket comes first."""
        if self._terminal_reason is not None:
            return None
        if now >= self._grace_over():
            return "disconnect_grace_expired"
        if now >= self._idle_over():
            return "idle_ttl_expired"
        return "session_length_reached" if now >= self._length_over else None

    def next_deadline(self) -> float | None:
        """When ``expiry`` may next have something to say, None for never as things stand."""
        if self._terminal_reason is not None:
            return None
        deadline = self._length_over
        if self._detached_at is not None:
            deadline = min(deadline, self._grace_over())
        if self._config.idle_ttl_s is not None:
            deadline = min(deadline, self._idle_over())
        return None if deadline == inf else deadline

    def _grace_over(self) -> float:
        detached_at = self._detached_at
        return inf if detached_at is None else detached_at + self._config.disconnect_grace_s

    def _idle_over(self) -> float:
        ttl_s = self._config.idle_ttl_s
        return inf if ttl_s is None or self._operations else self._last_activity + ttl_s

    def _refuse(self, what: str) -> NoReturn:
        raise LeaseEndedError(f"{what} after the session ended ({self._terminal_reason})")

    def _check_generation(self, expected: int) -> None:
        if expected != self._generation:
            raise LeaseConflictError(
                f"lease generation is {self._generation}, the caller expected {expected}"
            )
