"""A response object as OpenAI's own types describe it: their reasons, string metadata."""

from __future__ import annotations

from typing import Any

__all__ = ["openai_response"]

_BARGE_INS = frozenset({"turn_detected", "barge_in"})


def openai_response(response: dict[str, Any]) -> dict[str, Any]:
    """A copy of a rendered response that a strict parser accepts."""
    return {
        **response,
        "metadata": _client_metadata(response.get("metadata")),
        "status_details": _status_details(response.get("status_details")),
    }


def _client_metadata(metadata: dict[str, Any] | None) -> dict[str, str] | None:
    """What the client gave: ours are objects, and clients can give only strings."""
    own = {key: value for key, value in (metadata or {}).items() if isinstance(value, str)}
    return own or None


def _status_details(details: dict[str, Any] | None) -> dict[str, Any] | None:
    if details is None:
        return None
    if details["type"] == "failed":
        return {key: value for key, value in details.items() if key != "reason"}
    if details["type"] == "cancelled":
        barge_in = details.get("reason") in _BARGE_INS
        return {**details, "reason": "turn_detected" if barge_in else "client_cancelled"}
    return {**details, "reason": "max_output_tokens"}
