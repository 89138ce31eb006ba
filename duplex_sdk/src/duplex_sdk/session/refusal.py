"""How a ledger says no: with the code that the client will read."""

from __future__ import annotations

from duplex_sdk.errors import DuplexError

__all__ = ["RefusalError"]


class RefusalError(DuplexError):
    """A ledger refused a request and changed nothing.

    Attributes:
        code: the wire's error code.
        param: the field that is wrong, None when none is.
        detail: a finer code of the ledger's own, for logs and messages; else the same as ``code``.
    """

    def __init__(
        self, code: str, message: str, *, param: str | None = None, detail: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.param = param
        self.detail = detail or code
