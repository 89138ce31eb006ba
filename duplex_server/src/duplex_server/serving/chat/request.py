"""A chat request, checked and turned into a session and what is said in it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from duplex_sdk.protocol.duplex import (
    AppendAudio,
    Commit,
    CreateItem,
    CreateResponse,
    RealtimeCommand,
)

from .refusal import ChatRefusedError
from .tools import calls_said, result_said, tool_settings
from .wav import read_wav

__all__ = ["OUTPUT_RATE", "ChatRequest", "parse_chat_request"]

OUTPUT_RATE = 24_000
"""Hz of every audio answer, and of raw PCM in a question."""

AudioFormat = Literal["wav", "pcm16"]
_PIECE_MS = 1000
_SYSTEM = ("system", "developer")
_MODALITIES = frozenset({"text", "audio"})
_ABSENT: tuple[Any, ...] = (None, False, (), [], {}, 0)
_NOT_SERVED = ("logprobs", "top_logprobs", "functions", "prediction", "web_search_options")
_PCM = {"type": "audio/pcm", "rate": OUTPUT_RATE}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What was asked.

    Attributes:
        model: as named; None when the request names none.
        session: the session object to open with.
        commands: what is said, in order; the last one asks for the answer.
        stream: the answer is wanted piece by piece.
        include_usage: the stream ends with a usage chunk.
        audio: how the answer's audio is wanted; None for text alone.
    """

    model: str | None
    session: dict[str, Any]
    commands: tuple[RealtimeCommand, ...]
    stream: bool
    include_usage: bool
    audio: AudioFormat | None

    @property
    def is_spoken(self) -> bool:
        """Whether something of the question is sound."""
        return any(isinstance(command, Commit) for command in self.commands)

    @property
    def uses_tools(self) -> bool:
        """Whether functions may be called, or were."""
        said = (each.item for each in self.commands if isinstance(each, CreateItem))
        return "tools" in self.session or any(item["type"] != "message" for item in said)


def parse_chat_request(body: bytes) -> ChatRequest:
    """Read the JSON body of a request.

    Raises:
        ChatRefusedError: it is malformed, or asks for something no session can give.
    """
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ChatRefusedError("invalid_json", "the body is not JSON") from error
    if not isinstance(fields, dict):
        raise ChatRefusedError("bad_event", "the body must be a JSON object")
    _refuse_what_is_not_served(fields)
    stream = _flag(fields, "stream")
    audio = _audio_wanted(fields, stream)
    messages = _messages(fields)
    instructions, said = _split_instructions(messages)
    return ChatRequest(
        model=_typed(fields, "model", str),
        session=_session(fields, instructions, audio),
        commands=tuple(_commands(said, first=len(messages) - len(said))),
        stream=stream,
        include_usage=bool((_typed(fields, "stream_options", dict) or {}).get("include_usage")),
        audio=audio,
    )


def _refuse_what_is_not_served(fields: Mapping[str, Any]) -> None:
    count = fields.get("n")
    if count not in (None, 1):
        raise _unsupported("one answer per request", "n")
    for name in _NOT_SERVED:
        if fields.get(name) not in _ABSENT:
            raise _unsupported(f"{name} is not available here", name)
    response_format = fields.get("response_format")
    if response_format is not None and response_format != {"type": "text"}:
        raise _unsupported("answers are plain text", "response_format")


def _audio_wanted(fields: Mapping[str, Any], stream: bool) -> AudioFormat | None:
    modalities = _typed(fields, "modalities", list) or ["text"]
    if not all(isinstance(name, str) and name in _MODALITIES for name in modalities):
        raise ChatRefusedError("bad_event", "modalities are text and audio", param="modalities")
    if "audio" not in modalities:
        return None
    wanted = (_typed(fields, "audio", dict) or {}).get("format", "pcm16" if stream else "wav")
    if wanted == "pcm16" or (wanted == "wav" and not stream):
        return "pcm16" if wanted == "pcm16" else "wav"
    raise ChatRefusedError(
        "unsupported_audio_format",
        "audio answers are pcm16" if stream else "audio answers are wav or pcm16",
        param="audio.format",
    )


def _session(
    fields: Mapping[str, Any], instructions: str | None, audio: AudioFormat | None
) -> dict[str, Any]:
    output: dict[str, Any] = {"format": dict(_PCM)}
    voice = (_typed(fields, "audio", dict) or {}).get("voice")
    if voice is not None:
        output["voice"] = voice
    limit = fields.get("max_completion_tokens", fields.get("max_tokens"))
    said = {
        "instructions": instructions,
        "temperature": fields.get("temperature"),
        "max_output_tokens": limit,
    }
    return {
        "type": "realtime",
        "output_modalities": ["text"] if audio is None else ["audio"],
        "overlap_policy": "listen_only",
        "audio": {"input": {"format": dict(_PCM), "turn_detection": None}, "output": output},
        **tool_settings(fields),
        **{name: value for name, value in said.items() if value is not None},
    }


def _messages(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    messages: list[Any] = _typed(fields, "messages", list)
    if not messages:
        raise ChatRefusedError("bad_event", "messages must not be empty", param="messages")
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            path = f"messages[{index}]"
            raise ChatRefusedError("bad_event", f"{path} must be an object", param=path)
    return messages


def _split_instructions(
    messages: Sequence[Mapping[str, Any]],
) -> tuple[str | None, Sequence[Mapping[str, Any]]]:
    """What the system says first are the session's instructions; later it is an item."""
    roles = [message.get("role") for message in messages]
    count = next((n for n, role in enumerate(roles) if role not in _SYSTEM), len(roles))
    if count == len(messages):
        raise ChatRefusedError("bad_event", "nobody asks anything", param="messages")
    texts = [
        _part_text(part, where)
        for index, message in enumerate(messages[:count])
        for part, where in _parts(message, f"messages[{index}].content")
    ]
    return ("\n\n".join(texts) if texts else None), messages[count:]


def _commands(messages: Sequence[Mapping[str, Any]], *, first: int) -> Iterator[RealtimeCommand]:
    last = len(messages) - 1
    for index, message in enumerate(messages):
        spoken = yield from _message(message, f"messages[{first + index}]")
        if spoken:
            yield Commit(response_create=index == last)
        elif index == last:
            yield CreateResponse(response={})


def _message(message: Mapping[str, Any], path: str) -> Generator[RealtimeCommand, None, bool]:
    """The commands that say one message; returns whether its audio still waits for a commit."""
    role = message.get("role")
    if role == "tool":
        yield CreateItem(item=result_said(message, path))
        return False
    if role in _SYSTEM:
        role = "system"
    elif role not in ("user", "assistant"):
        raise _unsupported(
            "messages are by system, developer, user, assistant or tool", f"{path}.role"
        )
    calls = tuple(calls_said(message, path)) if role == "assistant" else ()
    shown: list[dict[str, Any]] = []
    audio: list[tuple[bytes, int]] = []
    for part, where in _parts(message, f"{path}.content"):
        if part.get("type") == "input_audio" and role == "user":
            audio.append(_part_audio(part, where))
        elif part.get("type") == "image_url" and role == "user":
            shown.append({"type": "input_image", "image_url": _part_image(part, where)})
        else:
            kind = "output_text" if role == "assistant" else "input_text"
            shown.append({"type": kind, "text": _part_text(part, where)})
    if shown:
        yield CreateItem(item={"type": "message", "role": role, "content": shown})
    elif not audio and not calls:
        raise _unsupported("a message needs content of its own", f"{path}.content")
    for call in calls:
        yield CreateItem(item=call)
    for pcm, rate in audio:
        size = 2 * rate * _PIECE_MS // 1000
        for start in range(0, len(pcm), size):
            yield AppendAudio(audio=pcm[start : start + size], format="pcm16", sample_rate_hz=rate)
    return bool(audio)


def _parts(message: Mapping[str, Any], path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    content = message.get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}, path
        return
    if content is None:
        return
    if not isinstance(content, list):
        raise ChatRefusedError("bad_event", f"{path} must be a string or a list", param=path)
    for index, part in enumerate(content):
        where = f"{path}[{index}]"
        if not isinstance(part, dict):
            raise ChatRefusedError("bad_event", f"{where} must be an object", param=where)
        yield part, where


def _part_text(part: Mapping[str, Any], path: str) -> str:
    text = part.get("text")
    if part.get("type") != "text":
        raise _unsupported("this part does not belong here", f"{path}.type")
    if not isinstance(text, str):
        raise ChatRefusedError("bad_event", f"{path}.text must be a string", param=f"{path}.text")
    return text


def _part_image(part: Mapping[str, Any], path: str) -> str:
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    if not isinstance(url, str):
        raise ChatRefusedError(
            "invalid_image", f"{path}.image_url must hold a url", param=f"{path}.image_url"
        )
    return url


def _part_audio(part: Mapping[str, Any], path: str) -> tuple[bytes, int]:
    audio = part.get("input_audio")
    if not isinstance(audio, dict) or not isinstance(audio.get("data"), str):
        raise ChatRefusedError("bad_audio", f"{path}.input_audio has no data", param=path)
    try:
        data = base64.b64decode(audio["data"], validate=True)
    except binascii.Error as error:
        raise ChatRefusedError("bad_audio", "the data is not base64", param=path) from error
    if audio.get("format") == "wav":
        return read_wav(data, param=path)
    if audio.get("format") == "pcm16":
        return data, OUTPUT_RATE
    raise ChatRefusedError(
        "unsupported_audio_format", "spoken input is wav or pcm16", param=f"{path}.input_audio"
    )


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise ChatRefusedError("bad_event", f"{name} must be true or false", param=name)
    return bool(value)


def _typed(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if value is not None and not isinstance(value, kind):
        raise ChatRefusedError("bad_event", f"{name} has the wrong type", param=name)
    return value


def _unsupported(message: str, param: str) -> ChatRefusedError:
    return ChatRefusedError("unsupported", message, param=param)
