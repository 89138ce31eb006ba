"""Answers in the shapes of OpenAI's chat API."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from typing import Any

import msgspec
from duplex_sdk.protocol.duplex import ResponseObject

from .answer import ChatPiece
from .refusal import ChatRefusedError
from .request import OUTPUT_RATE, AudioFormat
from .tools import call_fields
from .wav import wav_file

__all__ = ["STREAM_END", "ChatDocuments", "error_chunk"]

STREAM_END = b"data: [DONE]\n\n"
_AUDIO_KEPT_S = 3600
"""The API names a time until which audio could be referred to; nothing refers to it here."""


@dataclass(slots=True)
class ChatDocuments:
    """Renders one answer.

    Attributes:
        answer_id: a fresh one, unique.
        model: as served.
        audio: how audio is wanted; None for text alone.
    """

    answer_id: str
    model: str
    audio: AudioFormat | None
    _created: int = field(default_factory=lambda: int(time.time()))
    _calls: int = 0

    def completion(self, pieces: list[ChatPiece]) -> dict[str, Any]:
        """The whole answer; the last piece has the finished response."""
        response = pieces[-1].done
        assert response is not None
        text = "".join(piece.text for piece in pieces)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if self.audio is not None:
            pcm = b"".join(piece.audio for piece in pieces)
            data = wav_file(pcm, OUTPUT_RATE) if self.audio == "wav" else pcm
            message["content"] = None
            message["audio"] = self._audio(data=_base64(data), transcript=text)
        calls = [call_fields(piece.tool_call) for piece in pieces if piece.tool_call is not None]
        if calls:
            message["tool_calls"] = calls
            message["content"] = message["content"] or None
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": _finish_reason(response, called=bool(calls)),
            "logprobs": None,
        }
        return self._document("chat.completion", [choice]) | _usage(response)

    def first_chunk(self) -> bytes:
        """Who speaks."""
        return self._chunk({"role": "assistant", "content": "" if self.audio is None else None})

    def chunk(self, piece: ChatPiece) -> bytes:
        """A piece of the answer, the last one with why it ended."""
        if piece.done is not None:
            return self._chunk({}, _finish_reason(piece.done, called=self._calls > 0))
        if piece.tool_call is not None:
            call = {"index": self._calls, **call_fields(piece.tool_call)}
            self._calls += 1
            return self._chunk({"tool_calls": [call]})
        if piece.audio:
            return self._chunk({"audio": self._audio(data=_base64(piece.audio))})
        if self.audio is not None:
            return self._chunk({"audio": self._audio(transcript=piece.text)})
        return self._chunk({"content": piece.text})

    def usage_chunk(self, response: ResponseObject) -> bytes:
        """What it cost, as far as the model tells."""
        usage = _usage(response) or {"usage": None}
        return _event(self._document("chat.completion.chunk", []) | usage)

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return _event(self._document("chat.completion.chunk", [choice]))

    def _audio(self, **fields: str) -> dict[str, Any]:
        return {
            "id": f"audio_{self.answer_id}",
            "expires_at": self._created + _AUDIO_KEPT_S,
            **fields,
        }

    def _document(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self.answer_id}",
            "object": kind,
            "created": self._created,
            "model": self.model,
            "choices": choices,
        }


def error_chunk(error: ChatRefusedError) -> bytes:
    """What ends a stream that had begun."""
    details = {"code": error.code, "message": error.message, "param": error.param}
    return _event({"error": {"type": "server_error", **details}})


def _finish_reason(response: ResponseObject, *, called: bool) -> str:
    if called and response.status != "incomplete":
        return "tool_calls"
    return "length" if response.status == "incomplete" else "stop"


def _usage(response: ResponseObject) -> dict[str, Any]:
    usage = response.usage
    if not usage:
        return {}
    asked, answered = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
    return {
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": answered,
            "total_tokens": asked + answered,
        }
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(document) + b"\n\n"
