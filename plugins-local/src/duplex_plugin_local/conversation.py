"""Reading the conversation that comes with a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duplex_sdk.stage import Json

__all__ = ["last_said", "text_of"]


def text_of(message: Mapping[str, Json]) -> str:
    """The words of a message, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return ""
    parts = (part for part in content if isinstance(part, Mapping))
    return " ".join(str(part.get("text") or part.get("transcript") or "") for part in parts).strip()


def last_said(messages: Sequence[Mapping[str, Json]], role: str) -> str:
    """The last words of a role; "" when it said nothing yet."""
    for message in reversed(messages):
        text = text_of(message) if message.get("role") == role else ""
        if text:
            return text
    return ""
