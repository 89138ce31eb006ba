"""Which events of ours an ``openai`` connection asked to see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duplex_sdk.protocol.duplex import RealtimeProtocolError

__all__ = ["EventChoice"]

_PARAM = "session.duplex.events"


class EventChoice:
    """A set of wire types, or all of them. Immutable; the empty default was never ``made``."""

    __slots__ = ("_all", "_types", "made")

    def __init__(
        self, types: tuple[str, ...] = (), *, everything: bool = False, made: bool = False
    ) -> None:
        self._types = types
        self._all = everything
        self.made = made

    @classmethod
    def asked_in(cls, session: Mapping[str, Any]) -> EventChoice | None:
        """The choice a session object states, or None when it states none.

        Raises:
            RealtimeProtocolError: ``bad_event`` when it is neither ``"all"`` nor a list of strings.
        """
        extension = session.get("duplex")
        if not isinstance(extension, Mapping) or "events" not in extension:
            return None
        events = extension["events"]
        if events == "all":
            return cls(everything=True, made=True)
        if isinstance(events, list) and all(isinstance(name, str) for name in events):
            return cls(tuple(dict.fromkeys(events)), made=True)
        raise RealtimeProtocolError(
            "bad_event", "duplex.events is a list of event types or 'all'", param=_PARAM
        )

    def includes(self, wire_type: str) -> bool:
        """Whether events of this wire type are to be sent."""
        return self._all or wire_type in self._types

    def echo(self) -> dict[str, Any]:
        """The choice as the session object shows it."""
        return {"events": "all" if self._all else list(self._types)}
