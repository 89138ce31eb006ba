"""The ``duplex`` profile: our own clients, and whoever wants everything."""

from __future__ import annotations

from typing import Any, ClassVar

from duplex_sdk.protocol.duplex import DuplexEvent, RealtimeCommand, SessionClosed

from .base import ConnectionProfile, SocketEnding, stamped

__all__ = ["DuplexProfile"]


class DuplexProfile(ConnectionProfile):
    """All three tiers, the session's own defaults, refusals instead of leniency."""

    name: ClassVar[str] = "duplex"
    lenient: ClassVar[bool] = False
    waits_for_room: ClassVar[bool] = False
    model_must_be_known: ClassVar[bool] = True
    journals_from_the_start: ClassVar[bool] = True

    def opens_unasked(self, *, model: str | None, autostart: bool, resume: bool) -> bool:
        """With a model named and neither switch against it."""
        return model is not None and autostart and not resume

    def session_defaults(self, *, takes_own_turns: bool) -> dict[str, Any]:
        """None of its own: the session's defaults are written for this profile."""
        return {}

    def check_command(self, command: RealtimeCommand) -> None:
        """Every command is the session's to judge."""

    def command_submitted(self, command: RealtimeCommand) -> None:
        """Nothing is kept of it."""

    def outgoing(self, event: DuplexEvent) -> tuple[DuplexEvent, ...]:
        """Every event, at once."""
        return (event,)

    def render(self, event: DuplexEvent) -> dict[str, Any]:
        """The event's own rendering with its epoch."""
        return stamped(event.to_realtime(), event)

    def ending(self, terminal: SessionClosed | None, fallback_reason: str) -> SocketEnding:
        """A normal close when the terminal event told the reason, else what the reason deserves."""
        if terminal is not None:
            return SocketEnding(1000, terminal.reason)
        return SocketEnding(1001 if fallback_reason == "shutdown" else 1011, fallback_reason)
