"""The turn under way: its units leave for the model, are forgotten, or are heard again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.plugin import AppendPiece
from duplex_sdk.protocol.duplex import ClearInput, InputCleared

from .append_queue import Append

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .append_queue import AppendQueue
    from .floor import Floor
    from .input_buffer import InputBuffer, TakenUnit
    from .state import SessionState
    from .turn_input import RetainedPiece
    from .utterance import Utterance
    from .waiting_line import WaitingLine

__all__ = ["OpenTurn"]


class OpenTurn:
    """What becomes of input that no commit has sealed, and of all input when an epoch ends.

    Args:
        state: the session.
        buffer: holds what is not cut into units yet.
        appends: carries units to the stage.
        line: commands that wait for input.
        floor: knows what is in progress.
        utterance: tells of the end of speech.
        hear_committed: lets the model hear what was committed and kept from it, ahead of all else.
    """

    __slots__ = (
        "_appends",
        "_buffer",
        "_floor",
        "_hear_committed",
        "_line",
        "_state",
        "_utterance",
    )

    def __init__(
        self,
        state: SessionState,
        buffer: InputBuffer,
        appends: AppendQueue,
        line: WaitingLine,
        floor: Floor,
        utterance: Utterance,
        *,
        hear_committed: Callable[[], None],
    ) -> None:
        self._state = state
        self._buffer = buffer
        self._appends = appends
        self._line = line
        self._floor = floor
        self._utterance = utterance
        self._hear_committed = hear_committed

    # leaving

    def queue(self, units: list[TakenUnit]) -> None:
        """Units cut out of the turn go on their way."""
        state = self._state
        for unit in units:
            self._appends.push(
                Append(
                    unit.piece,
                    state.epoch,
                    taken=unit,
                    held=unit.held,
                    early=state.early_input,
                )
            )

    def resume(self) -> None:
        """Nothing is spoken over any more: what was kept back goes on its way."""
        if self._floor.emits and not self._floor.response_pending:
            self.queue(self._buffer.drain())

    # dropping

    def clear(self, command: ClearInput) -> None:
        """``input_audio_buffer.clear``: what no commit has sealed, and what waits unanswered.

        Audio that is not decoded yet is the caller's: none may stand before this command.
        """
        del command
        self.drop()
        self._state.turn_input.release_retained()
        self._line.reset_stream()
        self._line.reset_detector()
        self._state.emit(InputCleared)

    def drop(self) -> None:
        """Forget the turn under way; a model that has heard some of it is told to forget it too."""
        state = self._state
        turn = state.turn_input
        heard = bool(turn.early) or (state.early_input and not self._appends.idle)
        self._buffer.clear()
        self._appends.forget_cleared()
        turn.release_early()
        self._utterance.end()
        turn.begin_next()
        turn.overlap_speech_ms = 0.0
        if heard:
            self._appends.push(Append(AppendPiece(kind="discard", respond=False), state.epoch))

    def forget_item(self, item_id: str) -> None:
        """A user item was deleted: what is kept of it goes, and the model forgets its beginning."""
        turn = self._state.turn_input
        waited = item_id in turn.retained_items
        turn.forget_item(item_id)
        if waited and turn.early and not (turn.retained_items or turn.has_audio):
            turn.release_early()
            self._appends.push(
                Append(AppendPiece(kind="discard", respond=False), self._state.epoch)
            )

    def drop_all(self) -> None:
        """Forget all input, also what a commit that still waits would have sealed."""
        turn = self._state.turn_input
        self._line.drop_all_input()
        self._buffer.clear()
        self._appends.forget_cleared()
        turn.release_early()
        turn.release_retained()
        self._utterance.end()
        turn.begin_next()
        turn.overlap_speech_ms = 0.0
        self._line.reset_stream()
        self._line.reset_detector()

    def begin_epoch(self, *, drop_answers: bool) -> frozenset[str]:
        """A new epoch began: the model must hear again what it was told to forget.

        Returns:
            Committed items whose words can still come.
        """
        state = self._state
        turn = state.turn_input
        again = self._appends.end_epoch()
        if drop_answers:
            turn.release_retained()
        turn.answer_deferred = False
        items = set(turn.retained_items)
        for append in again:
            append.epoch = state.epoch
            items |= append.turn_items
            if append.piece.final:
                self._hear_again(append.covers)
                self._appends.push(append)
        self._hear_again(turn.early)
        for append in again:
            if not append.piece.final:
                self._appends.push(append)
        # Now: what interrupted may leave in this very step.
        self._hear_committed()
        state.later(self.resume)
        return frozenset(items)

    def _hear_again(self, units: list[RetainedPiece]) -> None:
        """A second hearing of the same bytes, which stay counted where they are retained."""
        for unit in units:
            self._appends.push(Append(unit.piece, self._state.epoch))

    def take_back_sealed(self, failed: Sequence[Append]) -> None:
        """The end of a turn failed of which the model has heard the beginning."""
        state = self._state
        lost = any(append.piece.final and append.piece.kind == "audio" for append in failed)
        if lost and state.early_input:
            self._appends.push(Append(AppendPiece(kind="discard", respond=False), state.epoch))
