"""What goes wrong between a caller and the engine."""

from __future__ import annotations

from duplex_sdk.errors import DuplexError
from duplex_sdk.session.inputs import Fault

__all__ = ["DuplexSessionError"]


class DuplexSessionError(DuplexError):
    """An operation on a session failed.

    Attributes:
        code: a stable name of the wire's table of codes.
        message: words for a person.
        retryable: the same call may succeed a little later.
        param: path of the field that is to blame, or None.
    """

    def __init__(
        self,
        code: str,
        message: str,
        retryable: bool = False,
        *,
        param: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.param = param

    @classmethod
    def of(cls, fault: Fault, *, retryable: bool = False) -> DuplexSessionError:
        """The exception for a fault of the core."""
        return cls(fault.code, fault.message, retryable, param=fault.param)
