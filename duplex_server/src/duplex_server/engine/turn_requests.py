"""Requests without a session: what the engine is asked, and where the answer goes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .errors import RequestFailedError
from .streams import RequestState

if TYPE_CHECKING:
    from duplex_sdk.audio import PcmChunk
    from duplex_sdk.stage import Json, StagePrompt, TokenUsage, ToolCall

__all__ = [
    "AbortRequest",
    "AddRequest",
    "AnswerEnd",
    "AnswerPiece",
    "AnswerSink",
    "TurnRequestState",
    "UpdateRequest",
]

MAX_UNREAD_BYTES = 32 * 1024 * 1024
"""Five minutes of speech that nobody has read: then the answer is given up."""


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A part of an answer.

    Attributes:
        text: new text only; may be empty.
        audio: new samples only, at the model's output rate; None: this piece has none.
        tool_call: a function that the caller is to call; None: this piece has none.
        usage: tokens of work that was done; those of all pieces add up. None: none was told of.
        finish_reason: why the model stopped, where it says so; "" so far.
    """

    text: str = ""
    audio: PcmChunk | None = None
    tool_call: ToolCall | None = None
    usage: TokenUsage | None = None
    finish_reason: str = ""

    @property
    def size(self) -> int:
        """Bytes it holds, near enough for a budget."""
        size = 64 + len(self.text) + (len(self.audio.data) if self.audio is not None else 0)
        return size + (len(self.tool_call.arguments) if self.tool_call is not None else 0)


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """Follows the last piece; without an error the answer is whole."""

    error: BaseException | None


class AnswerSink(ABC):
    """Where the engine puts an answer: on its own thread, in order, without waiting."""

    def __init__(self) -> None:
        # Each is counted up by one thread alone, so none of them needs a lock.
        self._put_bytes = 0
        self._read_bytes = 0

    @property
    def unread_bytes(self) -> int:
        """Size of the pieces that wait for their reader."""
        return self._put_bytes - self._read_bytes

    def put(self, piece: AnswerPiece) -> None:
        """Take a piece."""
        self._put_bytes += piece.size
        self._send(piece)

    def end(self, error: BaseException | None) -> None:
        """Nothing follows; ``error`` says why it is not the whole answer."""
        self._send(AnswerEnd(error))

    def _taken(self, item: AnswerPiece | AnswerEnd) -> AnswerPiece | None:
        """What the reader gets of an item: a piece, None after the whole answer, or the error."""
        if isinstance(item, AnswerPiece):
            self._read_bytes += item.size
            return item
        if item.error is not None:
            raise item.error
        return None

    @abstractmethod
    def _send(self, item: AnswerPiece | AnswerEnd) -> None:
        """Pass an item to the reader's side."""


@dataclass(frozen=True, slots=True)
class AddRequest:
    """Answer a conversation.

    Attributes:
        request_id: unique; also names the state that the stages make for it.
        prompt: of stage 0, kind ``conversation``, or ``audio`` for a spoken turn; unless it is
            ``final``, an ``UpdateRequest`` follows.
        sink: where the answer goes.
        config: what the stages are told, in the words of a public session object.
        runtime: what a plugin made of it.
        sampling: one mapping per stage; empty: what the stages have.
        seed: for the model's random numbers.
    """

    request_id: str
    prompt: StagePrompt
    sink: AnswerSink
    config: Mapping[str, Json] = field(default_factory=dict)
    runtime: Mapping[str, Json] = field(default_factory=dict)
    sampling: tuple[Mapping[str, Json], ...] = ()
    seed: int = 0

    @property
    def before(self) -> tuple[Mapping[str, Json], ...]:
        """The conversation before the turn that is to be answered."""
        messages = self.prompt.messages
        return messages if self.prompt.kind == "audio" else messages[:-1]


@dataclass(frozen=True, slots=True)
class UpdateRequest:
    """More of a request's turn; the last one is ``final``. Nothing happens when it has ended."""

    request_id: str
    prompt: StagePrompt


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """Stop a request; nothing happens when it has ended."""

    request_id: str


@dataclass(slots=True, kw_only=True)
class TurnRequestState(RequestState):
    """A request without a session.

    Attributes:
        sink: where its answer goes.
        ended: nothing more is delivered; its state in the stages is being closed.
        unsent: prompts that stage 0 has not taken yet, in order.
        whole: the ``final`` one has come.
        submitting: somebody is handing them over.
    """

    sink: AnswerSink
    ended: bool = False
    unsent: deque[StagePrompt] = field(default_factory=deque)
    whole: bool = False
    submitting: bool = False

    def deliver(self, piece: AnswerPiece) -> None:
        """Hand the caller a piece.

        Raises:
            RequestFailedError: it has not read what came before.
        """
        if self.sink.unread_bytes + piece.size > MAX_UNREAD_BYTES:
            raise RequestFailedError("output_backpressure", "the answer is not read")
        self.sink.put(piece)
