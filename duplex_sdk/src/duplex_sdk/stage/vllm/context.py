"""What a session's model has been given and has said, in tokens: the truth behind its request.

The engine's request can be lost at any time, by an interruption or because the context must be
cut, and the engine itself forgets the last token of every segment. This is where it is made good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from duplex_sdk.stage.types import Array

__all__ = ["Embeddings", "Piece", "TokenContext"]


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Ready embeddings, one row for each position of the context."""

    array: Array

    @property
    def count(self) -> int:
        """Positions they take."""
        return self.array.shape[0]


Piece: TypeAlias = tuple[int, ...] | Embeddings


@dataclass(slots=True)
class _Span:
    """One unit's input and what was said to it: kept or dropped as a whole."""

    pieces: list[list[int] | Embeddings] = field(default_factory=list)
    length: int = 0

    def add(self, piece: Piece) -> None:
        if isinstance(piece, Embeddings):
            self.pieces.append(piece)
            self.length += piece.count
            return
        if not self.pieces or isinstance(self.pieces[-1], Embeddings):
            self.pieces.append([])
        tokens = self.pieces[-1]
        assert isinstance(tokens, list)
        tokens.extend(piece)
        self.length += len(piece)


class TokenContext:
    """The context of one session and how much of it the engine's open request holds.

    A *span* is a unit with the answer to it. ``length`` counts positions of the model, tokens and
    embeddings alike, those included that the request still has to be given.
    """

    def __init__(self) -> None:
        self._spans: list[_Span] = []
        self._fed = 0
        self._turn_start = 0
        self.length = 0

    @property
    def fed(self) -> int:
        """How many positions the open request holds."""
        return self._fed

    @property
    def token_ids(self) -> tuple[int, ...] | None:
        """The whole context as tokens; None when there are embeddings in it."""
        tokens: list[int] = []
        for span in self._spans:
            for piece in span.pieces:
                if isinstance(piece, Embeddings):
                    return None
                tokens.extend(piece)
        return tuple(tokens)

    def begin_span(self, pieces: Sequence[Piece]) -> None:
        """A unit comes with this input."""
        span = _Span()
        for piece in pieces:
            span.add(piece)
        self._spans.append(span)
        self.length += span.length

    def undo_span(self) -> None:
        """The last unit was not fed, or its request is lost: forget it and what was said to it."""
        self.length -= self._spans.pop().length
        self._turn_start = min(self._turn_start, len(self._spans))
        self._fed = min(self._fed, self.length)

    def unfed(self) -> tuple[Piece, ...]:
        """What the request still has to be given, in order; never an object that is kept here."""
        pieces: list[Piece] = []
        skip = self._fed
        for span in self._spans:
            if skip >= span.length:
                skip -= span.length
                continue
            for piece in span.pieces:
                count = piece.count if isinstance(piece, Embeddings) else len(piece)
                if skip < count:
                    pieces.append(_rest(piece, skip))
                skip = max(0, skip - count)
        return _joined(pieces)

    def all_fed(self) -> None:
        """The request was given everything there is."""
        self._fed = self.length

    def sampled(self, token_ids: Sequence[int]) -> None:
        """The model said something; the request holds it."""
        self._spans[-1].add(tuple(token_ids))
        self.length += len(token_ids)
        self._fed = self.length

    def segment_ended(self) -> None:
        """A segment is over: of what was sampled in it the request has lost the last token."""
        self._fed = self.length - 1

    def forget_last_token(self) -> None:
        """Do without the token that the request lost, for a model that does not need it."""
        last = self._spans[-1]
        tokens = last.pieces[-1]
        assert isinstance(tokens, list)
        tokens.pop()
        last.length -= 1
        self.length -= 1

    def request_lost(self) -> None:
        """There is no open request any more; the next one is given everything."""
        self._fed = 0

    def end_turn(self) -> None:
        """What is there now can no longer be discarded."""
        self._turn_start = len(self._spans)

    def discard_turn(self) -> bool:
        """Forget all since the last turn ended; the request is lost. False: there was nothing."""
        dropped = self._spans[self._turn_start :]
        if not dropped:
            return False
        del self._spans[self._turn_start :]
        self.length -= sum(span.length for span in dropped)
        self._fed = 0
        return True

    def clear(self) -> None:
        """Forget everything; the request is lost."""
        self._spans.clear()
        self._turn_start = self._fed = self.length = 0

    def roll_over(self, length: int, *, keep_first: int) -> int:
        """Drop the oldest spans until no more than ``length`` positions are left.

        Args:
            length: what may be left.
            keep_first: how many spans at the beginning stay: instructions, a voice. The last span
                stays as well.

        Returns:
            How many positions were dropped; 0: nothing could be, and the request is as it was.
        """
        dropped = 0
        while self.length > length and len(self._spans) > keep_first + 1:
            dropped += (count := self._spans.pop(keep_first).length)
            self.length -= count
            if self._turn_start > keep_first:
                self._turn_start -= 1
        if dropped:
            self._fed = 0
        return dropped


def _rest(piece: list[int] | Embeddings, skip: int) -> Piece:
    if not isinstance(piece, Embeddings):
        return tuple(piece[skip:])
    if not skip:
        return piece
    array = piece.array
    row = len(array.data) // array.shape[0]
    left = (array.shape[0] - skip, *array.shape[1:])
    return Embeddings(Array(array.data[skip * row :], array.dtype, left))


def _joined(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """The same with neighbouring tokens in one piece."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and isinstance(piece, tuple) and isinstance(joined[-1], tuple):
            joined[-1] = (*joined[-1], *piece)
        else:
            joined.append(piece)
    return tuple(joined)
