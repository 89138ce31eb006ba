"""Base64 as the wire carries it: strict, and the only place that decodes it."""

from __future__ import annotations

import pybase64

from .errors import RealtimeProtocolError

__all__ = ["decode_base64", "encode_base64"]


def decode_base64(text: str, *, code: str, param: str) -> bytes:
    """Decode standard padded base64; white space and URL-safe letters are refused.

    Raises:
        RealtimeProtocolError: ``code``, when it is anything else.
    """
    try:
        return pybase64.b64decode(text, validate=True)
    except ValueError:
        raise RealtimeProtocolError(
            code, f"{param} is not strict padded base64", param=param
        ) from None


def encode_base64(data: bytes) -> str:
    """Standard padded base64."""
    return pybase64.b64encode_as_string(data)
