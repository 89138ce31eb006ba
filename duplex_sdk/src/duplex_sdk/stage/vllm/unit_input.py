"""What a unit means to a language model: positions of its context, and how to answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from duplex_sdk.errors import DuplexError
from duplex_sdk.stage.types import Array, Json, StagePrompt, StageSession, StageUnit, UnitRequest

from .context import Embeddings, Piece, TokenContext
from .conversation import plain_messages, without_oldest
from .engine import LanguageEngine
from .settings import BackendSettings

__all__ = ["ContextFullError", "UnitInput", "UnitInputError", "UnitReader", "stage_unit_of"]

EMBEDDINGS = "embeddings"
"""The array of a prompt that holds embeddings, one row for each position."""

_LEAST_SHARE = 8
"""An answer of unstated length gets at least this fraction of the model's context."""


class UnitInputError(DuplexError):
    """A unit holds nothing for a language model, or too much of it."""


class ContextFullError(DuplexError):
    """The next unit would pass the model's longest context, and the session is to end then."""


@dataclass(frozen=True, slots=True)
class UnitInput:
    """A unit, read.

    Attributes:
        pieces: what it adds to the context.
        sampling: how to sample, without the length.
        max_tokens: the longest answer; None: as long as there is room.
        replaces_context: the context begins anew with it: a conversation that is no continuation.
        ends_turn: its answer is a whole turn.
        silent: it wants no answer; one token is computed all the same, and nobody hears it.
        dropped: positions of the messages that a conversation was too long for.
    """

    pieces: tuple[Piece, ...]
    sampling: Mapping[str, Json]
    max_tokens: int | None
    replaces_context: bool = False
    ends_turn: bool = False
    silent: bool = False
    dropped: int = 0


class UnitReader:
    """Reads units for one engine and keeps answers within its longest context."""

    def __init__(self, engine: LanguageEngine, settings: BackendSettings) -> None:
        self._engine = engine
        self._settings = settings

    def read(self, prompt: StagePrompt, session: StageSession, context: TokenContext) -> UnitInput:
        """What the prompt adds to the context.

        Raises:
            UnitInputError: there is nothing in it for a language model, or it can't be rendered.
        """
        sampling = dict(session.sampling)
        wanted = sampling.pop("max_tokens", None)
        silent = prompt.final and not prompt.respond
        max_tokens = 1 if silent else wanted
        if prompt.messages:
            return self._conversation(prompt, sampling, max_tokens, context)
        pieces = (*self._words(prompt), *self._embeddings(prompt))
        if not pieces:
            raise UnitInputError(
                "a vllm stage takes messages, text, token_ids or the array 'embeddings'"
            )
        return UnitInput(pieces, sampling, max_tokens, ends_turn=prompt.final, silent=silent)

    def make_room(self, context: TokenContext, read: UnitInput) -> int:
        """Roll the context over if the answer would not fit; the unit is in it already.

        Returns:
            How many positions were dropped.

        Raises:
            UnitInputError: not even the unit alone would leave room for its answer.
            ContextFullError: there is no room and the session is not to roll over.
        """
        most = self._engine.max_positions - self._least_answer(read)
        if context.length <= most:
            return 0
        if self._settings.at_limit == "end":
            raise ContextFullError(
                f"the session reached the model's longest context, {self._engine.max_positions}"
            )
        if sum(_count(piece) for piece in read.pieces) > most:
            raise UnitInputError(
                f"the unit is too long for a model whose context is {self._engine.max_positions}"
            )
        # Half of it, so that it does not come to this again with the next unit.
        target = min(most, self._engine.max_positions // 2)
        dropped = context.roll_over(target, keep_first=self._settings.keep_units)
        if context.length > most:
            dropped += context.roll_over(most, keep_first=0)
        return dropped

    def answer_length(self, context: TokenContext, read: UnitInput) -> int:
        """The longest answer that both the caller and the model's context allow; at least 1."""
        room = self._engine.max_positions - context.length
        return room if read.max_tokens is None else min(room, read.max_tokens)

    def _least_answer(self, read: UnitInput) -> int:
        """What must be free before a unit is fed: all of a short answer, some of a long one."""
        share = max(1, self._engine.max_positions // _LEAST_SHARE)
        if read.max_tokens is None:
            return share
        if not isinstance(read.max_tokens, int) or read.max_tokens < 1:
            raise UnitInputError(f"max_tokens must be at least 1; got {read.max_tokens!r}")
        return min(share, read.max_tokens)

    def _conversation(
        self,
        prompt: StagePrompt,
        sampling: Mapping[str, Json],
        max_tokens: int | None,
        context: TokenContext,
    ) -> UnitInput:
        """A conversation brings the whole context with it; what the request has is not fed again.

        Words that are not those the model said, of an answer that was interrupted, begin anew.
        """
        messages: list[dict[str, Json]] | None = plain_messages(prompt.messages)
        if not messages:
            raise UnitInputError("nobody said anything in the conversation")
        tokens = whole = self._render(messages)
        probe = UnitInput((), sampling, max_tokens)
        most = self._engine.max_positions - self._least_answer(probe)
        while len(tokens) > most and self._settings.at_limit == "roll_over":
            messages = without_oldest(messages)
            if messages is None:
                break
            tokens = self._render(messages)
        known = context.token_ids or ()
        continues = 0 < len(known) < len(tokens) and tuple(tokens[: len(known)]) == known
        return UnitInput(
            (tuple(tokens[len(known) :] if continues else tokens),),
            sampling,
            max_tokens,
            replaces_context=not continues,
            ends_turn=True,
            silent=prompt.final and not prompt.respond,
            dropped=len(whole) - len(tokens),
        )

    def _render(self, messages: list[dict[str, Json]]) -> list[int]:
        try:
            return self._engine.render(messages)
        except ValueError as error:
            raise UnitInputError(str(error)) from error

    def _words(self, prompt: StagePrompt) -> tuple[Piece, ...]:
        tokens = tuple(prompt.token_ids)
        if prompt.text:
            tokens = (*tokens, *self._engine.encode(prompt.text))
        return (tokens,) if tokens else ()

    def _embeddings(self, prompt: StagePrompt) -> tuple[Piece, ...]:
        array = prompt.arrays.get(EMBEDDINGS)
        if array is None:
            return ()
        if self._settings.placeholder_token_id is None:
            raise UnitInputError("embeddings need the option placeholder_token_id")
        if not _is_matrix(array):
            raise UnitInputError("'embeddings' must be an array of rows, one for each position")
        return (Embeddings(array),)


def stage_unit_of(unit: UnitRequest) -> StageUnit[None]:
    """The unit in the form that makes outputs."""
    return StageUnit(
        None,
        unit.session_id,
        unit.request_id,
        unit.epoch,
        unit.turn_id,
        unit.seq,
        unit.prompt,
    )


def _count(piece: Piece) -> int:
    return piece.count if isinstance(piece, Embeddings) else len(piece)


def _is_matrix(array: Array) -> bool:
    return len(array.shape) == 2 and array.shape[0] > 0 and len(array.data) % array.shape[0] == 0
