"""``LanguageEngine``: what a session of a vllm stage needs of vLLM, and no more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from duplex_sdk.errors import DuplexError
from duplex_sdk.stage.types import Json

from .context import Piece

__all__ = ["Delta", "EngineLostError", "EngineRequest", "LanguageEngine", "Segment"]


def _ignore_step() -> None:
    """A step that nobody watches."""


class EngineLostError(DuplexError):
    """The engine died: nothing that was asked of it will be answered."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One more piece of input to a request, and how to answer it.

    Attributes:
        pieces: the input, at least one position.
        max_tokens: the longest answer, at least 1.
        sampling: further fields of vLLM's ``SamplingParams``.
        seed: for sampling that does not name one.
    """

    pieces: tuple[Piece, ...]
    max_tokens: int
    sampling: Mapping[str, Json] = field(default_factory=dict)
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer to a segment.

    Attributes:
        token_ids: new tokens.
        text: new text; it may lag behind the tokens while a character is incomplete.
        finish: why the segment ended (``stop``, ``length``); None: it goes on.
    """

    token_ids: tuple[int, ...]
    text: str
    finish: str | None = None


class EngineRequest(ABC):
    """A request that can be given one segment after the other; it keeps what it computed."""

    @abstractmethod
    def feed(self, segment: Segment) -> None:
        """Give it a segment; the one before must have ended."""

    @abstractmethod
    def abort(self) -> None:
        """End it and free what it holds; nothing more is told of it. Idempotent."""


class LanguageEngine(ABC):
    """A language model with continuous batching. All calls come from its loop's thread.

    Attributes:
        max_positions: the longest context of one request, input and answer together. A request
            that grows longer ends the engine for everybody: nobody may feed it that far.
        slots: how many requests may be open at once, idle ones included.
        on_step: called after each step of the model, whether or not anybody was answered in it.
    """

    max_positions: int
    slots: int
    on_step: Callable[[], None] = staticmethod(_ignore_step)

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Text as tokens, without any that open or close a document.

        Raises:
            ValueError: the model has no tokenizer.
        """

    @abstractmethod
    def render(self, messages: Sequence[Mapping[str, Json]]) -> list[int]:
        """A conversation as the model's chat template writes it, ready for the answer.

        Raises:
            ValueError: the model has no tokenizer, no template, or one that refuses it.
        """

    @abstractmethod
    def request(
        self,
        request_id: str,
        *,
        on_delta: Callable[[Delta], None],
        on_lost: Callable[[Exception], None],
    ) -> EngineRequest:
        """Open a request; nothing is computed until it is fed.

        Args:
            request_id: names it; unique among those open.
            on_delta: called on the loop with each piece of an answer.
            on_lost: called on the loop when it ended for another reason than ``abort``:
                ``EngineLostError`` for all requests alike, anything else for this one alone.
        """
