"""Conversation items and responses as they stand on the wire."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

__all__ = [
    "AudioTextMark",
    "ContentPart",
    "Item",
    "ItemStatus",
    "ResponseObject",
    "ResponseStatus",
    "StatusDetails",
]

ItemStatus = Literal["in_progress", "completed", "incomplete"]
ResponseStatus = Literal["in_progress", "completed", "incomplete", "cancelled", "failed"]


class AudioTextMark(msgspec.Struct, frozen=True, gc=False):
    """After ``audio_end_ms`` of a response ``text_chars`` are spoken; both cumulative."""

    text_chars: int
    audio_end_ms: int


class ContentPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a message. Audio and image data are never held here, only placeholders."""

    type: str
    text: str | UnsetType = UNSET
    transcript: str | UnsetType | None = UNSET
    image_url: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET
    is_speech: bool | UnsetType = UNSET
    audio_duration_ms: int | UnsetType = UNSET
    audio_text_marks: tuple[AudioTextMark, ...] | UnsetType = UNSET


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the conversation: message, function call or function call output."""

    id: str
    object: str = "realtime.item"
    type: str
    status: ItemStatus = "completed"
    role: Literal["user", "assistant", "system"] | UnsetType = UNSET
    content: tuple[ContentPart, ...] | UnsetType = UNSET
    name: str | UnsetType = UNSET
    call_id: str | UnsetType = UNSET
    arguments: str | UnsetType = UNSET
    output: str | UnsetType = UNSET


class StatusDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Why a response ended otherwise than ``completed``."""

    type: Literal["incomplete", "cancelled", "failed"]
    reason: str | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET


class ResponseObject(msgspec.Struct, frozen=True, kw_only=True):
    """The ``response`` of ``response.created`` and ``response.done``."""

    id: str
    object: str = "realtime.response"
    conversation_id: str | None = None
    status: ResponseStatus
    status_details: StatusDetails | None = None
    output: tuple[Item, ...] = ()
    output_modalities: tuple[str, ...]
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
