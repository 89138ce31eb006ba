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
        param: path of the offending field, when one is to blame.
    """

    def __init__(self, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
