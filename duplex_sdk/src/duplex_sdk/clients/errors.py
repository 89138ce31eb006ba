"""What can go wrong between a client and its session."""

from __future__ import annotations

from typing import Self

from duplex_sdk.errors import DuplexError
from duplex_sdk.protocol.duplex import ErrorEvent

__all__ = [
    "ClientAddressError",
    "ClientConnectionError",
    "ClientError",
    "ClientProtocolError",
    "ClientSessionClosedError",
    "ResumeRefusedError",
    "SubscriberOverflowError",
]


class ClientError(DuplexError):
    """Root of every error that a client raises."""


class ClientAddressError(ClientError, ValueError):
    """What was given as the address of a server is none."""


class ClientConnectionError(ClientError):
    """The transport could not be established, or is gone.

    Attributes:
        status: HTTP status of a refused upgrade, None otherwise.
        close_code: WebSocket close code of a connection that was lost, None otherwise.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        close_code: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.close_code = close_code


class ResumeRefusedError(ClientConnectionError):
    """The connection is back, and the session cannot be continued on it: open a new one.

    Attributes:
        code: why, as the server says it: ``session_resume_expired``, ``journal_gap`` ...
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(
            f"the session cannot be resumed: {message} ({code})", hint="open a new session"
        )
        self.code = code


class ClientProtocolError(ClientError):
    """The server refused something, or said what no server of this protocol says.

    Attributes:
        code: the stable name of the refusal.
        message: the server's sentence.
        event_id: the client event that was refused, when the server named it.
        param: path of the field to blame, when there is one.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        event_id: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.event_id = event_id
        self.param = param

    @classmethod
    def of(cls, event: ErrorEvent) -> Self:
        """The error a server reported."""
        details = event.error
        return cls(details.code, details.message, event_id=details.event_id, param=details.param)


class ClientSessionClosedError(ClientError):
    """The session is over.

    Attributes:
        reason: what the session gave as its end, or the client's own word for a lost one.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the session is closed: {reason}")
        self.reason = reason


class SubscriberOverflowError(ClientError):
    """A reader fell so far behind that events were lost to it; the session goes on."""
