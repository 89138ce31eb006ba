"""Why an engine does not do what it is asked."""

from __future__ import annotations

from duplex_sdk.errors import DuplexError

__all__ = ["EngineBusyError", "EngineDeadError", "EngineStartError", "RequestFailedError"]


class EngineDeadError(DuplexError):
    """The engine is not running: not started, stopped, or ended by a failure."""


class EngineBusyError(DuplexError):
    """The engine does not keep up with what it is sent; try again a little later."""


class EngineStartError(DuplexError):
    """The engine could not start."""


class RequestFailedError(DuplexError):
    """A request without a session was not answered, or not to its end.

    Attributes:
        code: of the wire's error table.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
