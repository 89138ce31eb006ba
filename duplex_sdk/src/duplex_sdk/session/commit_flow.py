"""Sealing input into a user item, and asking for its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from duplex_sdk.audio.chunk import PcmChunk
from duplex_sdk.plugin import AppendPiece
from duplex_sdk.protocol.duplex import (
    Commit,
    InputCommitted,
    Item,
)

from .append_queue import Append
from .commit_items import CommitItems, Sealed
from .commit_policy import (
    CommitAction,
    CommitSnapshot,
    commit_wants_response,
    decide_commit_action,
    is_short_overlap,
)
from .item_audio import in_units
from .state import TurnState
from .turn_input import MOST_RETAINED, RetainedPiece
from .waiting_line import HeldStep

if TYPE_CHECKING:
    from .append_queue import AppendQueue
    from .beside_flow import BesideFlow
    from .floor import Floor
    from .input_buffer import InputBuffer
    from .open_turn import OpenTurn
    from .response_flow import ResponseFlow
    from .state import SessionState
    from .transcripts import Transcripts
    from .waiting_line import WaitingLine

__all__ = ["CommitFlow"]


class CommitFlow:
    """Commits of one session.

    Args:
        state: the session.
        buffer: what a commit seals.
        appends: where sealed input goes.
        line: where a commit waits for the audio before it.
        floor: knows what is in progress.
        open_turn: what is forgotten instead of sealed.
        items: makes user items of what is sealed.
        responses: opens what was asked for.
        beside: a response that drains while the next one is opened.
        transcripts: the words of committed items.
    """

    __slots__ = (
        "_appends",
        "_beside",
        "_buffer",
        "_floor",
        "_items",
        "_line",
        "_open_turn",
        "_responses",
        "_state",
        "_transcripts",
    )

    def __init__(
        self,
        state: SessionState,
        buffer: InputBuffer,
        appends: AppendQueue,
        line: WaitingLine,
        floor: Floor,
        open_turn: OpenTurn,
        items: CommitItems,
        responses: ResponseFlow,
        beside: BesideFlow,
        transcripts: Transcripts,
    ) -> None:
        self._state = state
        self._buffer = buffer
        self._appends = appends
        self._line = line
        self._floor = floor
        self._open_turn = open_turn
        self._items = items
        self._responses = responses
        self._beside = beside
        self._transcripts = transcripts

    # asking for a commit

    def receive(self, command: Commit) -> None:
        """A client commits: the commit takes its turn behind the audio before it."""
        state = self._state
        turn = state.pending_turns.reserve_turn()
        if turn is None:
            state.fail("input_backpressure", "too many pending input turns", command=command)
            return
        step = HeldStep(
            run=lambda: self._carry_out(command, asks=step.answers),
            settled=True,
            aborted=lambda: self._abort(command),
            answers=commit_wants_response(
                asked=command.response_create,
                by_detector=False,
                create_response=False,
                auto_response=state.config.auto_response,
            ),
            turn=turn,
        )
        self._line.push_flush()
        self._line.push(step)

    def turn_ended(self) -> None:
        """The detector heard the end of a turn: commit behind the append that carried it."""
        detection = self._state.config.turn_detection
        step = HeldStep(
            run=lambda: self._carry_out_detected(asks=step.answers),
            settled=True,
            aborted=lambda: None,
            answers=detection is not None and detection.create_response,
        )
        self._line.push_first(step)

    def _abort(self, command: Commit | None) -> None:
        self._state.fail(
            "commit_aborted", "the input before this commit was dropped", command=command
        )

    # carrying it out

    def _carry_out(self, command: Commit, *, asks: bool) -> None:
        turn = self._state.turn_input
        if not command.final:
            self._flush()
        elif turn.failed:
            self._abort(command)
            self._open_turn.drop()
        elif command.is_speech is False or (turn.has_audio and not turn.has_speech):
            self._seal_silence()
        elif not turn.has_audio:
            self._state.fail(
                "input_audio_buffer_commit_empty",
                "nothing was appended since the last commit",
                command=command,
            )
        elif len(turn.retained_items) >= MOST_RETAINED:
            self._state.fail(
                "input_backpressure", "too many turns wait for an answer", command=command
            )
        else:
            self._seal(asks, by_client=True)
        self._line.reset_stream()
        self._line.reset_detector()

    def _carry_out_detected(self, *, asks: bool) -> None:
        turn = self._state.turn_input
        if turn.failed:
            self._abort(None)
            self._open_turn.drop()
        elif turn.has_speech and not turn.utterance_open:
            self._seal(asks, by_client=False)

    def _flush(self) -> None:
        """``final: false`` seals nothing: the model gets the unit that is not full yet."""
        if not self._floor.streams:
            return
        self._stream_whole_units()
        kept = self._buffer.seal()
        if kept is not None:
            piece = msgspec.structs.replace(kept.piece, final=False)
            self._appends.push(
                Append(piece, self._state.epoch, held=kept.held, early=self._state.early_input)
            )

    def _stream_whole_units(self) -> None:
        """What was kept back while an answer ran: the rest alone is what a seal may take."""
        for unit in self._buffer.drain():
            unit.reservation.commit()
            self._appends.push(
                Append(
                    unit.piece,
                    self._state.epoch,
                    held=unit.held,
                    early=self._state.early_input,
                )
            )

    # silence

    def _seal_silence(self) -> None:
        """An item that says there was no speech; its audio goes nowhere."""
        turn = self._state.turn_input
        item_id = turn.item_id or self._state.ids.item()
        flags = {"is_speech": False, "no_response": True}
        if not turn.has_audio:
            flags["empty"] = True
        self._open_turn.drop()
        self._items.tell(Sealed(item_id), flags=flags)
        self._responses.listen("silence_commit")

    # speech

    def _seal(self, asks: bool, *, by_client: bool) -> None:
        state = self._state
        turn = state.turn_input
        action = decide_commit_action(
            CommitSnapshot(
                auto_responds=state.auto_responds,
                speech_since_commit=turn.has_speech,
                response_in_progress=self._floor.response_in_progress,
                overlap_speech_ms=int(turn.overlap_speech_ms),
                concurrent_turn_gate_open=state.response is not None and state.response.releases,
            )
        )
        overlap_ms = int(turn.overlap_speech_ms)
        if action is CommitAction.START_AUTO_RESPONSE:
            self._seal_streamed(asks, by_client=by_client)
        elif action is CommitAction.COMMIT_ONLY:
            self._commit(asks, by_client=by_client)
        elif is_short_overlap(overlap_ms, state.config.overlap_short_ack_ms):
            self._drop_acknowledgement(by_client=by_client)
        else:
            self._defer(asks)

    def _only_heard(self, asks: bool, *, by_client: bool) -> bool:
        """A short commit of a client makes a model that takes its own turns listen."""
        state = self._state
        short = state.turn_input.audio_ms <= state.config.overlap_short_ack_ms
        return asks and by_client and state.native and short

    def _seal_streamed(self, asks: bool, *, by_client: bool) -> None:
        """An auto-responding model has heard all but the rest: give it that, as final."""
        state = self._state
        listen = self._only_heard(asks, by_client=by_client)
        self._items.seal(no_response=not asks)
        self._stream_whole_units()
        kept = self._buffer.seal()
        piece = AppendPiece(final=True) if kept is None else kept.piece
        piece = msgspec.structs.replace(piece, respond=asks, force_listen=listen)
        held = None if kept is None else kept.held
        self._appends.push(Append(piece, state.epoch, held=held))

    def _commit(self, asks: bool, *, by_client: bool) -> None:
        listen = self._only_heard(asks, by_client=by_client)
        if asks:
            self._beside.drain()
        waits = asks and self._floor.response_pending
        item_id = self._items.seal(response_create_deferred=waits)
        self._retain(item_id)
        if waits:
            # Nothing was said over the running response, but there is room for one only.
            self._state.turn_input.answer_deferred = True
        elif asks:
            self.answer_retained(force_listen=listen)
        elif self._state.early_input:
            self._let_hear()

    def _defer(self, asks: bool) -> None:
        """The user spoke over the answer: this turn is answered when that is over."""
        turn = self._state.turn_input
        item_id = self._items.seal(response_create_deferred=True)
        turn.overlap_speech_ms = 0.0
        self._retain(item_id)
        turn.answer_deferred = turn.answer_deferred or asks
        if not self._floor.response_pending:
            self._state.later(self.promote)

    def _drop_acknowledgement(self, *, by_client: bool) -> None:
        """Just "mm-hmm": no item; only a client's own commit gets an answer."""
        state = self._state
        item_id = state.turn_input.item_id or state.ids.item()
        self._open_turn.drop()
        if by_client:
            state.emit(
                InputCommitted,
                item_id=item_id,
                previous_item_id=state.items.last_id,
                event=self._items.details(item_id, {"overlap_ack": True}),
            )

    # an item of a client's own making

    def seal_item(
        self,
        item: Item,
        pieces: list[RetainedPiece],
        audio: PcmChunk | None,
        *,
        after: str | None,
    ) -> None:
        """Commit recorded speech under a client's item; nothing answers it by itself.

        Args:
            item: as the conversation shows it.
            pieces: what the model is to hear; none: all of it was silence.
            audio: all of it.
            after: where the item goes, as for ``ConversationItems.add``.
        """
        state = self._state
        state.commit_seq += 1
        state.turn_state = TurnState.USER_COMMITTED
        words = (part.transcript for part in item.content or ())
        hint = next((each for each in words if isinstance(each, str) and each), None)
        seconds = 0.0 if audio is None else audio.duration_ms / 1000
        flags = {"no_response": True} if pieces else {"no_response": True, "is_speech": False}
        self._items.tell(Sealed(item.id, seconds, hint=hint), flags=flags, item=item, after=after)
        if state.auto_responds:
            for kept in pieces:
                piece = msgspec.structs.replace(kept.piece, respond=False)
                self._appends.push(
                    Append(piece, state.epoch, held=kept.held, turn_items=frozenset((item.id,)))
                )
        elif pieces:
            state.turn_input.retained.extend(replace(kept, item_id=item.id) for kept in pieces)
            state.turn_input.retained_items.append(item.id)
            if state.early_input and not self._floor.response_pending:
                self._let_hear()

    # the audio

    def _retain(self, item_id: str) -> None:
        """Keep what was sealed until it is answered, whole units first where units are heard."""
        turn = self._state.turn_input
        turn.retained_items.append(item_id)
        if self._state.early_input:
            for unit in self._buffer.drain():
                unit.reservation.commit()
                turn.retained.append(RetainedPiece(unit.piece, unit.held, item_id))
        kept = self._buffer.seal()
        if kept is not None:
            turn.retained.append(replace(kept, item_id=item_id))

    def answer_retained(self, *, force_listen: bool = False) -> None:
        """Open the response for the committed input and give the input to the model."""
        self._responses.open(bound=True)
        self._submit_retained(respond=True, force_listen=force_listen)

    def submit_retained(self) -> None:
        """Give the committed input to the model; its response is open."""
        self._submit_retained(respond=True)

    def _let_hear(self) -> None:
        """A committed turn that asks for no answer: the model has it in its ears anyway."""
        turn = self._state.turn_input
        items = tuple(turn.retained_items)
        self._submit_retained(respond=False)
        turn.heard(items)

    def _submit_retained(self, *, respond: bool, force_listen: bool = False) -> None:
        state = self._state
        turn = state.turn_input
        pieces, items = turn.retained[:], frozenset(turn.retained_items)
        self._transcripts.merged(turn.retained_items)
        covers, turn.early = turn.early, []
        turn.retained.clear()
        turn.retained_items.clear()
        turn.answer_deferred = False
        if respond:
            turn.heard_items.clear()
        if state.early_input:
            last = self._last_piece(pieces)
            for kept in pieces:
                self._appends.push(Append(kept.piece, state.epoch))
            covers = covers + pieces
        else:
            last = self._last_unit(_merged(pieces))
        piece = AppendPiece(final=True) if last is None else last.piece
        piece = msgspec.structs.replace(
            piece, final=True, respond=respond, force_listen=piece.force_listen or force_listen
        )
        self._appends.push(
            Append(
                piece,
                state.epoch,
                held=None if last is None else last.held,
                answers=respond,
                turn_items=items,
                covers=covers,
            )
        )

    def _last_unit(self, whole: RetainedPiece | None) -> RetainedPiece | None:
        """The piece that ends a turn. One kept since before a model that streams answered unasked
        goes to it in units.
        """  # noqa: D205
        if whole is None or whole.piece.audio is None or not self._state.auto_responds:
            return whole
        sound = PcmChunk(_unpadded(whole.piece), whole.piece.audio.rate)
        *units, last = in_units(self._state, sound, whole.held)
        for kept in units:
            self._appends.push(Append(kept.piece, self._state.epoch, held=kept.held))
        piece = msgspec.structs.replace(last.piece, images=whole.piece.images)
        return replace(last, piece=piece)

    @staticmethod
    def _last_piece(pieces: list[RetainedPiece]) -> RetainedPiece | None:
        """Take off the piece that ends the turn; None when whole units were all there was."""
        return pieces.pop() if pieces and pieces[-1].piece.final else None

    # promotion

    def promote(self) -> None:
        """Nothing is spoken over any more: answer what was said meanwhile, once."""
        state = self._state
        turn = state.turn_input
        if not state.open or self._floor.response_pending:
            return
        if turn.answer_deferred and turn.retained_items:
            self.answer_retained()
        else:
            self.hear_retained()

    def hear_retained(self) -> None:
        """A model that hears turns early hears one that was kept from it before what follows."""
        if self._state.early_input and self._state.turn_input.retained_items:
            self._let_hear()


def _merged(pieces: list[RetainedPiece]) -> RetainedPiece | None:
    """Several sealed stretches as one turn's input."""
    if not pieces:
        return None
    held = pieces[0].held
    for other in pieces[1:]:
        held.absorb(other.held)
    audible = [kept.piece for kept in pieces if kept.piece.audio is not None]
    audio = None
    if audible and audible[-1].audio is not None:
        # Zeros that a commit added belong only to the very end.
        data = b"".join(_unpadded(piece) for piece in audible[:-1]) + audible[-1].audio.data
        audio = PcmChunk(data, audible[-1].audio.rate)
    last = pieces[-1].piece
    return RetainedPiece(
        msgspec.structs.replace(
            last,
            audio=audio,
            images=tuple(image for kept in pieces for image in kept.piece.images),
            force_listen=any(kept.piece.force_listen for kept in pieces),
        ),
        held,
    )


def _unpadded(piece: AppendPiece) -> bytes:
    if piece.audio is None:
        return b""
    return piece.audio.data[: len(piece.audio.data) - 4 * piece.padding]
