"""The ``openai`` profile: any stock OpenAI Realtime client, unmodified."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar

from duplex_sdk.protocol.duplex import (
    TIER_3_EVENTS,
    CloseSession,
    DuplexErrorDetails,
    DuplexEvent,
    DuplexRawEvent,
    ErrorEvent,
    RealtimeCommand,
    ResponseCreated,
    ResponseDone,
    SessionClosed,
    SessionCreated,
    SessionHeartbeatAck,
    SessionReplaced,
    SessionResumed,
    SessionResyncRequired,
    SessionUpdated,
    UpdateSession,
)

from .announced_detection import announced_session, asked_detection
from .base import ConnectionProfile, SocketEnding, stamped
from .event_choice import EventChoice
from .hold_back import FunctionCallHoldBack
from .openai_response import openai_response

__all__ = ["OpenAIProfile"]

_NORMAL_ENDS = frozenset(
    {
        "client_close",
        "disconnect",
        "disconnect_grace_expired",
        "idle_ttl_expired",
        "session_length_reached",
    }
)
_ANSWERS = (SessionHeartbeatAck, SessionReplaced, SessionResumed, SessionResyncRequired)
"""Sent only to a client that used the command or the resume they answer."""
_PCM_24K = {"type": "audio/pcm", "rate": 24_000}


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an update that is not yet answered says of this profile's own affairs."""

    choice: EventChoice | None
    detection: bool | None


class OpenAIProfile(ConnectionProfile):
    """GA names only, OpenAI's defaults, leniency, and nothing a strict parser would refuse."""

    name: ClassVar[str] = "openai"
    lenient: ClassVar[bool] = True
    waits_for_room: ClassVar[bool] = True
    model_must_be_known: ClassVar[bool] = False
    journals_from_the_start: ClassVar[bool] = False

    def __init__(self) -> None:
        self._choice = EventChoice()
        self._wants_detection = True
        self._asked: deque[_Asked] = deque()
        self._hold_back = FunctionCallHoldBack()
        self._closed_by_client = False
        self._last_fault: ErrorEvent | None = None

    def opens_unasked(self, *, model: str | None, autostart: bool, resume: bool) -> bool:
        """Unless the client will resume: stock clients wait for ``session.created``."""
        return not resume

    def session_defaults(self, *, takes_own_turns: bool) -> dict[str, Any]:
        """OpenAI's: voice answers, PCM at 24 kHz both ways, turns by voice activity."""
        return {
            "output_modalities": ["audio"],
            "auto_response": takes_own_turns,
            "audio": {
                "input": {
                    "format": dict(_PCM_24K),
                    "turn_detection": {
                        "type": "server_vad",
                        "create_response": True,
                        "interrupt_response": True,
                    },
                },
                "output": {"format": dict(_PCM_24K)},
            },
        }

    def check_command(self, command: RealtimeCommand) -> None:
        """Only a choice of extra events is this profile's to judge.

        Raises:
            RealtimeProtocolError: ``session.duplex.events`` is malformed.
        """
        if isinstance(command, UpdateSession):
            EventChoice.asked_in(command.session)

    def command_submitted(self, command: RealtimeCommand) -> None:
        """Keeps a choice of extra events until its update is accepted, and notes a close."""
        if isinstance(command, UpdateSession):
            session = command.session
            self._asked.append(_Asked(EventChoice.asked_in(session), asked_detection(session)))
        elif isinstance(command, CloseSession):
            self._closed_by_client = True

    def outgoing(self, event: DuplexEvent) -> tuple[DuplexEvent, ...]:
        """OpenAI's events and the chosen ones of ours; function calls after the open response."""
        if isinstance(event, SessionUpdated):
            self._settle_update(accepted=True)
        elif isinstance(event, ErrorEvent):
            if event.command is None:
                self._remember_fault(event)
                return ()
            if event.command == UpdateSession.type:
                self._settle_update(accepted=False)
        elif isinstance(event, ResponseCreated):
            # The session went on after its last fault, so that was not what will end it.
            self._last_fault = None
        elif isinstance(event, TIER_3_EVENTS) and not self._shows(event):
            return ()
        return self._hold_back.release(event)

    def render(self, event: DuplexEvent) -> dict[str, Any]:
        """The event as a strict GA parser takes it."""
        payload = event.to_realtime()
        if isinstance(event, ResponseCreated | ResponseDone):
            payload["response"] = openai_response(payload["response"])
        elif isinstance(event, SessionCreated | SessionUpdated):
            payload["session"] = self._announced(payload["session"])
        return stamped(payload, event)

    def ending(self, terminal: SessionClosed | None, fallback_reason: str) -> SocketEnding:
        """No event; 1000 for an end without fault, 1001 for a shutdown, else an error and 1011."""
        reason = terminal.reason if terminal is not None else fallback_reason
        if self._closed_by_client or reason in _NORMAL_ENDS:
            return SocketEnding(1000, reason)
        if reason == "shutdown":
            return SocketEnding(1001, reason)
        return SocketEnding(1011, reason, self._last_fault or _ended_by(reason))

    def _announced(self, session: dict[str, Any]) -> dict[str, Any]:
        shown = announced_session(session, wanted=self._wants_detection)
        return shown | {"duplex": self._choice.echo()} if self._choice.made else shown

    def _shows(self, event: DuplexEvent) -> bool:
        return isinstance(event, _ANSWERS) or self._choice.includes(_wire_type(event))

    def _remember_fault(self, event: ErrorEvent) -> None:
        if event.error.code != "server_vad_unavailable":
            self._last_fault = event

    def _settle_update(self, *, accepted: bool) -> None:
        if not self._asked:
            # The update that opened the session was no command.
            return
        asked = self._asked.popleft()
        if not accepted:
            return
        if asked.choice is not None:
            self._choice = asked.choice
        if asked.detection is not None:
            self._wants_detection = asked.detection


def _ended_by(reason: str) -> ErrorEvent:
    details = DuplexErrorDetails(
        type="server_error", code=reason, message=f"the session was ended: {reason}"
    )
    return ErrorEvent(error=details)


def _wire_type(event: DuplexEvent) -> str:
    if isinstance(event, DuplexRawEvent):
        return f"{event.type}.{event.name}"
    return event.type
