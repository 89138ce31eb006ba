"""OpenAI's error envelope: the exception that becomes one, and the three classes."""

from __future__ import annotations

from typing import Literal

from duplex_sdk.errors import DuplexError

__all__ = ["ErrorType", "RealtimeProtocolError"]

ErrorType = Literal["invalid_request_error", "server_error", "rate_limit_error"]


class RealtimeProtocolError(DuplexError):
    """A message that breaks the protocol, or a request that is refused.

    Attributes:
        code: stable name for programs.
        message: words for a person; never holds audio, keys or what a user said.
        param: path of the offending field, when one is to blame.
        event_id: the client's own id of the refused message, when it gave a valid one.
        command: wire type of the refused message, when it could be read.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        event_id: str | None = None,
        command: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.event_id = event_id
        self.command = command
