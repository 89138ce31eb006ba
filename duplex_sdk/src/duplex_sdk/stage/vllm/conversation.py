"""A session's conversation as a chat template takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duplex_sdk.stage.types import Json

__all__ = ["plain_messages", "without_oldest"]


def plain_messages(messages: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Roles and words: templates know no parts of content, and nothing can be said of silence."""
    plain = []
    for message in messages:
        text = _text(message.get("content"))
        if text:
            plain.append({"role": str(message.get("role")), "content": text})
    return plain


def without_oldest(messages: Sequence[dict[str, Json]]) -> list[dict[str, Json]] | None:
    """The conversation without its oldest message that is no instruction.

    The last message stays. None: nothing is left that could go.
    """
    for index, message in enumerate(messages[:-1]):
        if message["role"] not in ("system", "developer"):
            return [*messages[:index], *messages[index + 1 :]]
    return None


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, Sequence):
        return ""
    parts = (part for part in content if isinstance(part, Mapping))
    return " ".join(str(part.get("text") or part.get("transcript") or "") for part in parts).strip()
