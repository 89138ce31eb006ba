"""What can go wrong between a client and its session."""

from __future__ import annotations

from duplex_sdk.errors import DuplexError

__all__ = [
    "ClientConnectionError",
    "ClientError",
    "ClientProtocolError",
    "ClientSessionClosedError",
    "SubscriberOverflowError",
]


class ClientError(DuplexError):
    """Root of every error that a client raises."""


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
