"""Items as clients create them: checked, split into what is shown and what goes to the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from .audio_input import read_audio, read_audio_format
from .errors import RealtimeProtocolError
from .fields import Fields
from .images import read_image_url
from .items import ContentPart, Item, ItemStatus

__all__ = [
    "AUDIO_PLACEHOLDER",
    "IMAGE_PLACEHOLDER",
    "ClientItem",
    "ItemAudio",
    "ItemImage",
    "parse_item",
]

AUDIO_PLACEHOLDER = "duplex:input-audio"
IMAGE_PLACEHOLDER = "duplex:input-image"

MAX_ITEM_BYTES = 1024 * 1024 - 16 * 1024
"""Largest rendering of an item: the frame around it stays below 1 MiB."""

_ROLES = ("user", "assistant", "system")
_STATUSES = ("in_progress", "completed", "incomplete")
_PART_TYPES = {
    "user": ("input_text", "input_audio", "input_image"),
    "assistant": ("output_text", "output_audio", "text", "input_text"),
    "system": ("input_text",),
}


class ItemAudio(msgspec.Struct, frozen=True, kw_only=True):
    """Audio of one part, out of base64.

    Attributes:
        data: bytes in ``format`` at ``rate``.
        format: canonical name; None where the session's input format holds.
        rate: Hz; None where the session's input rate holds.
        transcript: what the client says was spoken; None when it says nothing.
    """

    data: bytes
    format: str | None = None
    rate: int | None = None
    transcript: str | None = None


class ItemImage(msgspec.Struct, frozen=True, kw_only=True):
    """Image of one part: the data URL as the client sent it and its bytes."""

    url: str
    data: bytes
    detail: str | None = None


class ClientItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item a client wants to add.

    Attributes:
        item: as the conversation shows it; audio left out, images by placeholder.
        audio: its audio parts, in order.
        images: its image parts, in order.
    """

    item: Item
    audio: tuple[ItemAudio, ...] = ()
    images: tuple[ItemImage, ...] = ()


def parse_item(value: Mapping[str, Any], *, default_id: str) -> ClientItem:
    """Check the ``item`` of ``conversation.item.create`` and take its data out.

    Args:
        value: the client's object.
        default_id: id of the item when the client chose none.

    Raises:
        RealtimeProtocolError: ``bad_event``, ``bad_audio``, ``unsupported_audio_format``,
            ``invalid_image``, ``invalid_function_call_output``, or ``event_too_large`` for an item
            whose events would not fit a frame; ``param`` is the field's path.
    """
    parsed = _parse(Fields(value, path="item"), default_id)
    if len(msgspec.json.encode(parsed.item)) > MAX_ITEM_BYTES:
        raise RealtimeProtocolError("event_too_large", "the item is too large", param="item")
    return parsed


def _parse(fields: Fields, default_id: str) -> ClientItem:
    item_type = fields.text("type") or "message"
    if item_type == "message":
        return _message(fields, default_id)
    if item_type == "function_call_output":
        return ClientItem(item=_function_call_output(fields, default_id))
    if item_type == "function_call":
        return ClientItem(item=_function_call(fields, default_id))
    raise fields.refuse("type", "is not an item type of this server")


def _function_call_output(fields: Fields, default_id: str) -> Item:
    call_id, output = fields.get("call_id"), fields.values.get("output")
    for name, content in (("call_id", call_id), ("output", output)):
        if not isinstance(content, str) or (name == "call_id" and not content):
            param = fields.param(name)
            raise RealtimeProtocolError(
                "invalid_function_call_output", f"{param} must be a string", param=param
            )
    return Item(
        id=_identity(fields, default_id),
        type="function_call_output",
        status=_status(fields),
        call_id=str(call_id),
        output=str(output),
    )


def _function_call(fields: Fields, default_id: str) -> Item:
    return Item(
        id=_identity(fields, default_id),
        type="function_call",
        status=_status(fields),
        name=fields.required_text("name"),
        call_id=fields.text("call_id") or UNSET,
        arguments=fields.text("arguments") or "",
    )


def _message(fields: Fields, default_id: str) -> ClientItem:
    role = _role(fields)
    parts: list[ContentPart] = []
    audio: list[ItemAudio] = []
    images: list[ItemImage] = []
    for index, part in enumerate(fields.sequence("content") or ()):
        path = f"item.content[{index}]"
        if not isinstance(part, Mapping):
            raise RealtimeProtocolError("bad_event", f"{path} must be an object", param=path)
        _read_part(Fields(part, path=path), role, parts, audio, images)
    item = Item(
        id=_identity(fields, default_id),
        type="message",
        status=_status(fields),
        role=role,
        content=tuple(parts),
    )
    return ClientItem(item=item, audio=tuple(audio), images=tuple(images))


def _read_part(
    part: Fields,
    role: str,
    parts: list[ContentPart],
    audio: list[ItemAudio],
    images: list[ItemImage],
) -> None:
    kind = part.required_text("type")
    if kind == "input_image" and role != "user":
        raise RealtimeProtocolError(
            "invalid_image", "images belong to user messages", param=part.param("type")
        )
    if kind not in _PART_TYPES[role]:
        raise part.refuse("type", f"is no part of a message by {role}")
    if kind == "input_audio":
        transcript = part.text("transcript") or ""
        # A client that replays a conversation has the words and no longer the sound.
        if not transcript or part.get("audio") is not None:
            audio.append(_audio_part(part))
        parts.append(ContentPart(type=kind, transcript=transcript))
    elif kind == "input_image":
        images.append(_image_part(part))
        detail = images[-1].detail
        parts.append(
            ContentPart(
                type=kind,
                image_url=IMAGE_PLACEHOLDER,
                detail=UNSET if detail is None else detail,
            )
        )
    elif kind == "output_audio":
        parts.append(ContentPart(type=kind, transcript=part.text("transcript") or ""))
    else:
        parts.append(ContentPart(type=_text_type(role), text=_text(part)))


def _text_type(role: str) -> str:
    return "output_text" if role == "assistant" else "input_text"


def _text(part: Fields) -> str:
    text = part.text("text")
    if text is None:
        raise part.refuse("text", "must be a string")
    return text


def _audio_part(part: Fields) -> ItemAudio:
    data = read_audio(part)
    if not data:
        raise part.refuse("audio", "is missing")
    name, rate = read_audio_format(part)
    return ItemAudio(data=data, format=name, rate=rate, transcript=part.text("transcript"))


def _image_part(part: Fields) -> ItemImage:
    param = part.param("image_url")
    url = part.get("image_url")
    if not isinstance(url, str):
        raise RealtimeProtocolError("invalid_image", f"{param} must be a string", param=param)
    data = read_image_url(url, param=param)
    return ItemImage(url=url, data=data, detail=part.text("detail"))


def _identity(fields: Fields, default_id: str) -> str:
    return fields.identifier("id") or default_id


def _role(fields: Fields) -> Literal["user", "assistant", "system"]:
    role = fields.text("role") or "user"
    for known in _ROLES:
        if role == known:
            return known  # type: ignore[return-value]
    raise fields.refuse("role", "must be user, assistant or system")


def _status(fields: Fields) -> ItemStatus:
    status = fields.text("status") or "completed"
    for known in _STATUSES:
        if status == known:
            return known  # type: ignore[return-value]
    raise fields.refuse("status", "must be in_progress, completed or incomplete")
