"""Speech inside an item that a client makes: decoded like an append, sealed under the item's id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import AppendPiece
from duplex_sdk.protocol.duplex import AppendAudio, Item, RealtimeProtocolError

from .inputs import Fault
from .refusal import RefusalError
from .turn_input import MOST_RETAINED, RetainedPiece
from .waiting_line import HeldStep, PendingAppend

if TYPE_CHECKING:
    from collections.abc import Callable

    from duplex_sdk.protocol.duplex import ClientItem, CreateItem

    from .commit_flow import CommitFlow
    from .inputs import AudioDecoded
    from .reservations import Reservation
    from .state import SessionState
    from .waiting_line import WaitingLine

__all__ = ["ItemAudioFlow", "image_item", "in_units"]


class _SpokenItem:
    """The sound of one item while it is decoded: audible parts joined, with their bytes."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        held = state.input_bytes.reserve(0)
        assert held is not None, "nothing always fits"
        self._held = held
        self._chunks: list[PcmChunk] = []
        self.fault: Fault | None = None

    def hear(self, command: AppendAudio, item: AudioDecoded) -> None:
        """Take in one decoded part; silent ones are skipped."""
        del command
        audio = item.audio
        if self.fault is not None or item.fault is not None:
            self.fault = self.fault or item.fault
            return
        loudness = item.verdict.rms
        silent = loudness is not None and loudness < self._state.config.overlap_silence_rms
        if audio is None or silent:
            return
        if not self._held.resize(self._held.amount + len(audio.data)):
            self.fault = Fault("input_backpressure", "the audio of the item finds no room")
            return
        self._chunks.append(audio)

    def take(self) -> tuple[PcmChunk | None, Reservation]:
        """What was audible, and the bytes it occupies, which are the caller's now."""
        return PcmChunk.join(self._chunks), self._held

    def drop(self) -> None:
        """Nothing comes of it."""
        self._held.release()


class ItemAudioFlow:
    """Makes user items of speech that was recorded elsewhere. No answer begins by itself.

    Args:
        state: the session.
        line: where the parts are decoded, one after the other, behind the audio before them.
        commits: seals them.
    """

    __slots__ = ("_commits", "_line", "_state")

    def __init__(self, state: SessionState, line: WaitingLine, commits: CommitFlow) -> None:
        self._state = state
        self._line = line
        self._commits = commits

    def receive(
        self,
        made: ClientItem,
        command: CreateItem,
        *,
        store_images: Callable[[ClientItem, str | None], str | None],
    ) -> None:
        """Decode the parts of a checked item next, then seal them.

        Args:
            made: the item; it has audio.
            command: what it came with.
            store_images: puts its pictures into the conversation behind an item, and says behind
                which the audio goes.

        Raises:
            RealtimeProtocolError: ``input_backpressure``, its bytes find no room.
        """
        held = [self._state.input_bytes.reserve(len(part.data)) for part in made.audio]
        if any(each is None for each in held):
            for each in held:
                if each is not None:
                    each.release()
            raise RealtimeProtocolError(
                "input_backpressure", "too much audio waits for the item's own to fit", param="item"
            )
        spoken = _SpokenItem(self._state)
        step = HeldStep(
            run=lambda: self._seal(made, command, spoken, store_images),
            settled=True,
            aborted=lambda: self._abort(command, spoken),
            discarded=spoken.drop,
        )
        # The microphone's last samples first: they belong to the turn under way.
        nothing = self._state.input_bytes.reserve(0)
        assert nothing is not None, "nothing always fits"
        parts = [
            PendingAppend(
                AppendAudio(audio=part.data, format=part.format, sample_rate_hz=part.rate),
                each,
                flush=True,
                heard=spoken.hear,
            )
            for part, each in zip(made.audio, held, strict=True)
            if each is not None
        ]
        self._line.push_first(PendingAppend(AppendAudio(), nothing, flush=True), *parts, step)

    def _abort(self, command: CreateItem, spoken: _SpokenItem) -> None:
        spoken.drop()
        self._state.fail(
            "commit_aborted", "the input before this item was dropped", command=command
        )

    def _seal(
        self,
        made: ClientItem,
        command: CreateItem,
        spoken: _SpokenItem,
        store_images: Callable[[ClientItem, str | None], str | None],
    ) -> None:
        state = self._state
        fault = spoken.fault
        try:
            if fault is not None:
                raise RealtimeProtocolError(fault.code, fault.message, param=fault.param)
            if made.item.id in state.items:
                raise RealtimeProtocolError("bad_event", "this id is taken", param="item.id")
            after = command.previous_item_id
            if after not in (None, "root") and after not in state.items:
                # It went while the sound was decoded, to make room.
                raise RealtimeProtocolError(
                    "bad_event", "there is no such item", param="previous_item_id"
                )
            if len(state.turn_input.retained_items) >= MOST_RETAINED:
                raise RealtimeProtocolError(
                    "input_backpressure", "too many turns wait for an answer", param="item"
                )
            after = store_images(made, after)
        except (RealtimeProtocolError, RefusalError) as error:
            spoken.drop()
            state.fail(error.code, str(error), command=command, param=error.param)
            return
        audio, held = spoken.take()
        item = _without_images(made.item) if made.images else made.item
        self._commits.seal_item(item, in_units(state, audio, held), audio, after=after)


def image_item(made: ClientItem) -> Item:
    """The item that holds the pictures of a spoken one."""
    pictures = tuple(part for part in made.item.content or () if part.type == "input_image")
    return msgspec.structs.replace(made.item, id=f"{made.item.id}_image", content=pictures)


def _without_images(item: Item) -> Item:
    words = tuple(part for part in item.content or () if part.type != "input_image")
    return msgspec.structs.replace(item, content=words)


def in_units(state: SessionState, audio: PcmChunk | None, held: Reservation) -> list[RetainedPiece]:
    """Recorded speech as the model takes it: streamed input in units, else a turn in one piece.

    The last piece is ``final``. ``held`` goes over to the pieces.
    """
    if audio is None:
        held.release()
        return []
    if not (state.auto_responds or state.early_input):
        return [RetainedPiece(AppendPiece(audio=audio, is_speech=True, final=True), held)]
    # A fresh buffer of the plugin's: the one of the session holds the turn under way.
    buffer = state.plugin.create_session_state().audio_buffer
    units: list[AppendPiece] = []
    piece = AppendPiece(audio=audio, is_speech=True)
    while (
        taken := buffer.prepare_append(piece, operation_id="item", allow_emit=True)
    ) is not None and taken.unit is not None:
        units.append(taken.unit)
        taken.commit()
        if not buffer.has_pending():
            break
        piece = AppendPiece()
    rest = buffer.flush()
    last = AppendPiece(is_speech=True) if rest is None else rest
    units.append(msgspec.structs.replace(last, final=True))
    pieces = []
    for unit in units:
        size = 0 if unit.audio is None else len(unit.audio.data)
        pieces.append(RetainedPiece(unit, held.split(size)))
    held.release()
    return pieces
