"""What a profile is: how one connection is spoken to. The engine knows none of this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from duplex_sdk.protocol.duplex import DuplexEvent, ErrorEvent, RealtimeCommand, SessionClosed

__all__ = ["ConnectionProfile", "SocketEnding"]


@dataclass(frozen=True, slots=True)
class SocketEnding:
    """How a socket is closed once its session is over.

    Attributes:
        code: WebSocket close code.
        reason: close reason, at most 123 bytes of UTF-8.
        error: sent before the close, or None. Its ``event_id`` is empty when it is not the
            session's own: the sender gives it one.
    """

    code: int
    reason: str
    error: ErrorEvent | None = None


class ConnectionProfile(ABC):
    """One object per session: it may remember what it has shown.

    All methods are called on the serving loop and never block.

    Attributes:
        name: of the profile, as users write it.
        lenient: what can no longer change, or names the model does not have, fail no command.
        waits_for_room: a client that sends too fast is not read instead of refused.
        model_must_be_known: an unknown ``model`` refuses the connection.
        journals_from_the_start: a lost socket can be resumed; else only once the client has shown
            that it might, with ``session.event_ack`` or a resume.
    """

    name: ClassVar[str]
    lenient: ClassVar[bool]
    waits_for_room: ClassVar[bool]
    model_must_be_known: ClassVar[bool]
    journals_from_the_start: ClassVar[bool]

    @abstractmethod
    def opens_unasked(self, *, model: str | None, autostart: bool, resume: bool) -> bool:
        """Whether a session is opened before the client has sent anything."""

    @abstractmethod
    def session_defaults(self, *, takes_own_turns: bool) -> dict[str, Any]:
        """The session object a session starts from, in the wire's GA spelling.

        Args:
            takes_own_turns: the model decides by itself when to speak.
        """

    @abstractmethod
    def check_command(self, command: RealtimeCommand) -> None:
        """Look at a command before it is submitted.

        Raises:
            RealtimeProtocolError: the profile refuses it; it must not be submitted.
        """

    @abstractmethod
    def command_submitted(self, command: RealtimeCommand) -> None:
        """Take note of a command that the session now has."""

    @abstractmethod
    def outgoing(self, event: DuplexEvent) -> tuple[DuplexEvent, ...]:
        """The events to send now that the session has emitted ``event``, in order; may be none."""

    @abstractmethod
    def render(self, event: DuplexEvent) -> dict[str, Any]:
        """The event as this connection's client reads it: a fresh JSON object."""

    @abstractmethod
    def ending(self, terminal: SessionClosed | None, fallback_reason: str) -> SocketEnding:
        """How to close the socket after the last event.

        Args:
            terminal: the session's own last event; None when its stream ended without one.
            fallback_reason: why the session ended, where ``terminal`` cannot say.
        """


def stamped(payload: dict[str, Any], event: DuplexEvent) -> dict[str, Any]:
    """Add the epoch to an event whose class does not render it itself."""
    if event.epoch is not None and "epoch" not in payload:
        payload["epoch"] = event.epoch
    return payload
