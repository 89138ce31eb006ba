"""An answer as it comes, whatever gives it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duplex_sdk.protocol.duplex import ResponseObject
    from duplex_sdk.stage import ToolCall

__all__ = ["ChatAnswer", "ChatPiece"]


@dataclass(frozen=True, slots=True)
class ChatPiece:
    """A part of an answer.

    Attributes:
        text: written, or of the transcript of what is spoken.
        audio: PCM16.
        tool_call: a function that the client is to call; its ``call_id`` is not empty.
        done: the finished response, with the last piece.
    """

    text: str = ""
    audio: bytes = b""
    tool_call: ToolCall | None = None
    done: ResponseObject | None = None


class ChatAnswer(ABC):
    """The one answer to a request; ``close`` it, whatever happens."""

    @abstractmethod
    async def begin(self) -> None:
        """Wait until the answer begins.

        Raises:
            ChatRefusedError: something of the question was refused, or nobody can answer.
        """

    @abstractmethod
    async def next(self) -> ChatPiece:
        """The next piece; the last one has ``done``.

        Raises:
            ChatRefusedError: the answer failed.
        """

    @abstractmethod
    async def close(self) -> None:
        """End whatever gives the answer. Safe to call at any time, and again."""
