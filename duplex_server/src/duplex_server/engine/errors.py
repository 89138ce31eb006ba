"""Why an engine does not do what it is asked."""

from __future__ import annotations

from duplex_sdk.errors import DuplexError

__all__ = ["EngineBusyError", "EngineDeadError", "EngineStartError"]


class EngineDeadError(DuplexError):
    """The engine is not running: not started, stopped, or ended by a failure."""


class EngineBusyError(DuplexError):
    """The engine does not keep up with what it is sent; try again a little later."""


class EngineStartError(DuplexError):
    """The engine could not start."""
