"""One entry of the conversation, and the message it is for a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from duplex_sdk.plugin.read_only import ReadOnlyDict, read_only

from .spoken_text import SpokenText

if TYPE_CHECKING:
    from duplex_sdk.protocol.duplex import ClientItem

__all__ = [
    "AUDIO_PLACEHOLDER",
    "EntryState",
    "HistoryEntry",
    "assistant_message",
    "audio_message",
    "call_message",
    "call_output_message",
    "message",
    "message_parts",
    "with_transcript",
]

AUDIO_PLACEHOLDER = "duplex:input-audio"
"""Stands for audio in messages: samples are never kept in the conversation."""

EntryState = Literal["plain", "open", "done", "cancelled", "failed"]


@dataclass(slots=True, eq=False)
class HistoryEntry:
    """A place in the conversation. Compared by identity: equal text is not the same item.

    Attributes:
        message: what a model reads; None while the place is only reserved.
        state: of a response's item how the response stands; ``plain`` for all others.
        spoken: of a response's item all that was said, None before anything is known.
        shown: of a response's item the words that count.
        cap_ms: smallest position a client truncated it to.
        size: characters it stands for.
        images: pictures among them.
        image_chars: characters of their URLs.
    """

    item_id: str
    message: ReadOnlyDict | None = None
    state: EntryState = "plain"
    spoken: SpokenText | None = None
    shown: str = ""
    cap_ms: float | None = None
    size: int = 0
    images: int = 0
    image_chars: int = 0

    @property
    def forgettable(self) -> bool:
        """Whether it may go to make room: not while its response is open."""
        return self.state != "open"

    def limit(self, text: str) -> str:
        """The text as far as the client's truncation leaves it."""
        if self.cap_ms is None or self.spoken is None:
            return text
        capped = self.spoken.prefix(self.cap_ms)
        return capped if len(capped) < len(text) else text

    def lower_cap(self, position_ms: float) -> None:
        """Remember a truncation; the smallest holds."""
        position = max(0.0, position_ms)
        self.cap_ms = position if self.cap_ms is None else min(self.cap_ms, position)


def message(role: str, parts: Iterable[Mapping[str, Any]], **extra: Any) -> ReadOnlyDict:
    """A message of these parts, read-only to the ground."""
    content = tuple(read_only(dict(part)) for part in parts)
    return ReadOnlyDict({"role": role, "content": content, **read_only(extra)})


def assistant_message(text: str) -> ReadOnlyDict:
    """What the assistant said."""
    return message("assistant", ({"type": "text", "text": text},))


def audio_message(transcript: str | None) -> ReadOnlyDict:
    """What the user said, with the words when they are known."""
    part: dict[str, Any] = {"type": "audio_url", "audio_url": {"url": AUDIO_PLACEHOLDER}}
    if transcript:
        part["transcript"] = transcript
    return message("user", (part,))


def with_transcript(spoken: Mapping[str, Any], transcript: str) -> ReadOnlyDict:
    """A message of the user whose words became known; what was written beside them stays."""
    parts = [
        {**part, "transcript": transcript} if part["type"] == "audio_url" else part
        for part in spoken["content"]
    ]
    return message("user", parts)


def call_message(call_id: str, name: str, arguments: str) -> ReadOnlyDict:
    """The assistant calls a function; ``arguments`` is JSON text."""
    function = {"name": name, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return message("assistant", (), tool_calls=[call])


def call_output_message(call_id: str, output: str) -> ReadOnlyDict:
    """What a function returned."""
    return message("tool", ({"type": "text", "text": output},), tool_call_id=call_id)


def message_parts(made: ClientItem) -> list[Mapping[str, Any]]:
    """A message's content as a model reads it."""
    images = iter(made.images)
    parts: list[Mapping[str, Any]] = []
    for part in made.item.content or ():
        if part.type == "input_image":
            parts.append({"type": "image_url", "image_url": {"url": next(images).url}})
        elif isinstance(part.text, str):
            parts.append({"type": "text", "text": part.text})
        elif isinstance(part.transcript, str):
            parts.append({"type": "text", "text": part.transcript})
    return parts
