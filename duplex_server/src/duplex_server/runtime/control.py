"""What the callers' side and the engine say to each other.

Control messages carry a ``control_id`` and are answered by one ``ControlResult``, unless it is
empty; a command is one-way, its refusal is an ``error`` event of its session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from duplex_sdk.session.inputs import Fault

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexSessionConfig
    from duplex_sdk.protocol.duplex import RealtimeCommand

    from .session_link import SessionLink

__all__ = [
    "CloseSessionMessage",
    "CommandMessage",
    "ControlMessage",
    "ControlResult",
    "OpenSessionMessage",
    "ResumeSessionMessage",
    "RoomAskedMessage",
    "RoomMadeMessage",
    "SessionMessage",
    "TouchSessionMessage",
]


class OpenSessionMessage(msgspec.Struct, frozen=True):
    """Open a session; ``link`` is the caller's end of it, made beforehand so no event is missed."""

    control_id: str
    session_id: str
    config: DuplexSessionConfig
    link: SessionLink
    by_update: bool = False


class CloseSessionMessage(msgspec.Struct, frozen=True):
    """End a session."""

    control_id: str
    session_id: str
    reason: str = "client_close"


class ResumeSessionMessage(msgspec.Struct, frozen=True):
    """Take a session over, if its lease still has this generation."""

    control_id: str
    session_id: str
    expected_generation: int


class TouchSessionMessage(msgspec.Struct, frozen=True):
    """Show interest, or detach: ``activity`` ``detach`` needs the generation."""

    control_id: str
    session_id: str
    activity: str
    expected_generation: int | None = None


class CommandMessage(msgspec.Struct, frozen=True):
    """A client's command; ``lenient`` is its profile's wish, ``size`` its bytes of input."""

    session_id: str
    command: RealtimeCommand
    lenient: bool = False
    size: int = 0


ControlMessage = (
    OpenSessionMessage | CloseSessionMessage | ResumeSessionMessage | TouchSessionMessage
)
SessionMessage = ControlMessage | CommandMessage


class ControlResult(msgspec.Struct, frozen=True):
    """How a control operation went; ok when there is no fault."""

    operation: Literal["open", "close", "resume", "touch", "detach"]
    session_id: str
    lease_generation: int | None = None
    public_session: dict[str, Any] | None = None
    fault: Fault | None = None
    retryable: bool = False


class RoomMadeMessage(msgspec.Struct, frozen=True):
    """A reader took events of a session whose stage outputs were held back."""

    session_id: str


class RoomAskedMessage(msgspec.Struct, frozen=True):
    """A caller waits until a session takes more input."""

    session_id: str
