"""Why a chat request gets no answer."""

from __future__ import annotations

from duplex_sdk.protocol.duplex import error_type, is_retryable

__all__ = ["ChatRefusedError"]

_UNAVAILABLE = frozenset({"engine_dead", "session_closed"})


class ChatRefusedError(Exception):
    """The request cannot be answered.

    Attributes:
        code: of the wire's table.
        message: words for a person.
        param: the field to blame, as a path; None when it is none of the request's.
        status: HTTP status.
    """

    def __init__(
        self, code: str, message: str, *, param: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.status = status if status is not None else _status(code)


def _status(code: str) -> int:
    if is_retryable(code) or code in _UNAVAILABLE:
        return 503
    return 400 if error_type(code) == "invalid_request_error" else 500
