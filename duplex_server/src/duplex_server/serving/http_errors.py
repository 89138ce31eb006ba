"""HTTP refusals in the envelope of the wire's errors."""

from __future__ import annotations

from collections.abc import Mapping

from duplex_sdk.protocol.duplex import error_type, is_retryable
from starlette.responses import JSONResponse

__all__ = ["error_response", "status_of_refusal"]

_RETRY_AFTER_S = 1
_BAD_REQUEST = frozenset({"invalid_session_config", "invalid_argument"})


def error_response(
    status: int,
    code: str,
    message: str,
    *,
    param: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """A response ``{"error": {type, code, message, param}}``; 503 says when to come back."""
    sent = dict(headers or {})
    if status == 503:
        sent["Retry-After"] = str(_RETRY_AFTER_S)
    error = {"type": error_type(code), "code": code, "message": message, "param": param}
    return JSONResponse({"error": error}, status_code=status, headers=sent)


def status_of_refusal(code: str) -> int:
    """The HTTP status that says why no session could be opened on the upgrade."""
    if is_retryable(code) or code == "engine_dead":
        return 503
    return 400 if code in _BAD_REQUEST else 500
