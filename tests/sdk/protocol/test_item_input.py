"""Items that clients create."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    IMAGE_PLACEHOLDER,
    ClientItem,
    ItemAudio,
    RealtimeProtocolError,
    parse_item,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
JPEG = b"\xff\xd8\xff\xe0" + bytes(8)


def data_url(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def parsed(**item: Any) -> ClientItem:
    return parse_item(item, default_id="item_new")


def message(*parts: dict[str, Any], role: str = "user") -> ClientItem:
    return parsed(type="message", role=role, content=list(parts))


def refusal(**item: Any) -> RealtimeProtocolError:
    with pytest.raises(RealtimeProtocolError) as caught:
        parse_item(item, default_id="item_new")
    return caught.value


def test_empty_object_is_an_empty_user_message() -> None:
    item = parsed().item
    assert (item.id, item.object, item.type) == ("item_new", "realtime.item", "message")
    assert (item.status, item.role, item.content) == ("completed", "user", ())


def test_client_chooses_the_id() -> None:
    assert parsed(id="mine").item.id == "mine"


def test_text_keeps_its_words() -> None:
    user = message({"type": "input_text", "text": "hello"}).item
    assistant = message({"type": "text", "text": "hi"}, role="assistant").item
    assert isinstance(user.content, tuple)
    assert isinstance(assistant.content, tuple)
    assert [(part.type, part.text) for part in user.content] == [("input_text", "hello")]
    assert [(part.type, part.text) for part in assistant.content] == [("output_text", "hi")]


def test_audio_leaves_the_item_as_bytes() -> None:
    made = message(
        {"type": "input_audio", "audio": "AAE=", "format": "pcmu", "transcript": "hello"}
        | {"format": {"type": "audio/pcmu", "rate": 8000}},
        {"type": "input_audio", "audio": "AAECAw=="},
    )
    assert made.audio == (
        ItemAudio(data=b"\0\1", format="g711_ulaw", rate=8000, transcript="hello"),
        ItemAudio(data=b"\0\1\2\3"),
    )
    assert isinstance(made.item.content, tuple)
    assert [part.transcript for part in made.item.content] == ["hello", ""]


def test_replayed_audio_may_be_words_alone() -> None:
    made = message({"type": "input_audio", "transcript": "hello"})
    assert made.audio == ()
    assert isinstance(made.item.content, tuple)
    assert [part.transcript for part in made.item.content] == ["hello"]


@pytest.mark.parametrize(("data", "kind"), [(PNG, "png"), (JPEG, "jpeg"), (JPEG, "jpg")])
def test_image_leaves_a_placeholder(data: bytes, kind: str) -> None:
    made = message({"type": "input_image", "image_url": data_url(data, kind), "detail": "low"})
    assert [image.data for image in made.images] == [data]
    assert isinstance(made.item.content, tuple)
    assert [(part.image_url, part.detail) for part in made.item.content] == [
        (IMAGE_PLACEHOLDER, "low")
    ]


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/cat.png",
        data_url(b"GIF89a", "gif"),
        data_url(JPEG, "png"),
        "data:image/png;base64,!!",
        "data:image/png,abc",
        "",
        5,
        None,
    ],
)
def test_image_that_is_no_jpeg_or_png_data_url_is_refused(url: Any) -> None:
    error = refusal(content=[{"type": "input_image", "image_url": url}])
    assert (error.code, error.param) == ("invalid_image", "item.content[0].image_url")


def test_item_whose_events_would_not_fit_a_frame_is_refused() -> None:
    limit = 1024 * 1024 - 16 * 1024
    part = {"type": "input_text", "text": "x" * limit}
    assert refusal(content=[part]).code == "event_too_large"
    assert refusal(id="x" * 513).param == "item.id"
    assert message({"type": "input_text", "text": "x" * (limit - 512)}).item.id == "item_new"
    audio = message({"type": "input_audio", "audio": "AAAA" * 400_000})
    assert len(audio.audio[0].data) == 1_200_000


@pytest.mark.parametrize("role", ["assistant", "system"])
def test_images_belong_to_users(role: str) -> None:
    part = {"type": "input_image", "image_url": data_url(PNG, "png")}
    assert refusal(role=role, content=[part]).code == "invalid_image"


@pytest.mark.parametrize(
    ("item", "code", "param"),
    [
        ({"type": "mcp_call"}, "bad_event", "item.type"),
        ({"type": 5}, "bad_event", "item.type"),
        ({"role": "tool"}, "bad_event", "item.role"),
        ({"status": "done"}, "bad_event", "item.status"),
        ({"id": 5}, "bad_event", "item.id"),
        ({"content": "hello"}, "bad_event", "item.content"),
        ({"content": ["hello"]}, "bad_event", "item.content[0]"),
        ({"content": [{}]}, "bad_event", "item.content[0].type"),
        ({"content": [{"type": "output_audio"}]}, "bad_event", "item.content[0].type"),
        ({"content": [{"type": "input_text"}]}, "bad_event", "item.content[0].text"),
        ({"content": [{"type": "input_audio"}]}, "bad_event", "item.content[0].audio"),
        (
            {"content": [{"type": "input_audio", "audio": "A"}]},
            "bad_audio",
            "item.content[0].audio",
        ),
        (
            {"content": [{"type": "input_audio", "audio": "AAE=", "format": "opus"}]},
            "unsupported_audio_format",
            "item.content[0].format",
        ),
        ({"type": "function_call"}, "bad_event", "item.name"),
        (
            {"type": "function_call_output", "output": "21"},
            "invalid_function_call_output",
            "item.call_id",
        ),
        (
            {"type": "function_call_output", "call_id": "call_1", "output": {"celsius": 21}},
            "invalid_function_call_output",
            "item.output",
        ),
    ],
)
def test_refusal_names_the_place(item: dict[str, Any], code: str, param: str) -> None:
    error = refusal(**item)
    assert (error.code, error.param) == (code, param)


def test_function_items_are_stored_as_they_are() -> None:
    call = parsed(type="function_call", name="f", call_id="c", arguments="{}").item
    assert (call.name, call.call_id, call.arguments) == ("f", "c", "{}")
    output = parsed(type="function_call_output", call_id="c", output="").item
    assert (output.call_id, output.output) == ("c", "")
