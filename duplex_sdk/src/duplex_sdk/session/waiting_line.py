"""Commands that wait for the audio before them, in the order they came.

One append is decoded at a time. A commit, an update and whatever came behind them wait until the
units of the appends before them have settled; a cancel, an acknowledgement, a heartbeat and a close
never stand in this line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from duplex_sdk.protocol.duplex import G711_FORMATS, G711_RATE, AppendAudio

from .effects import DecodeAudio

if TYPE_CHECKING:
    from .append_queue import AppendQueue
    from .inputs import AudioDecoded
    from .reservations import Reservation
    from .state import SessionState

__all__ = ["HeldStep", "PendingAppend", "WaitingLine"]


class PendingAppend(msgspec.Struct, eq=False):
    """Audio that was admitted and is not decoded yet, with the bytes it occupies.

    ``heard`` takes it instead of the microphone's listener; such audio is a stream of its own.
    """

    command: AppendAudio
    held: Reservation
    op: int = 0
    dropped: bool = False
    flush: bool = False
    heard: Callable[[AppendAudio, AudioDecoded], None] | None = None


@dataclass(slots=True, eq=False)
class HeldStep:
    """Something to be done in its turn.

    Attributes:
        run: does it.
        settled: it needs all units before it to have settled.
        aborted: what to do instead when the input before it is dropped; None: it stays in line.
        answers: it asks for an answer, by itself or by what it seals.
        turn: the pending turn it occupies.
        held: the bytes that it occupies while it waits.
        spoiled: a unit failed while this waited for it.
        discarded: gives back what it holds when the session ends before its turn.
    """

    run: Callable[[], None]
    settled: bool = False
    aborted: Callable[[], None] | None = None
    answers: bool = False
    turn: Reservation | None = None
    held: Reservation | None = None
    spoiled: bool = False
    discarded: Callable[[], None] | None = None

    def leave(self) -> None:
        """It waits no longer: what it occupies is given back."""
        if self.turn is not None:
            self.turn.release()
        if self.held is not None:
            self.held.release()


class WaitingLine:
    """The line of one session.

    Args:
        state: the session.
        appends: units that must settle before some steps.
        heard: takes each decoded append.
    """

    __slots__ = (
        "_appends",
        "_decoding",
        "_heard",
        "_line",
        "_reset_detector",
        "_reset_stream",
        "_state",
    )

    def __init__(
        self,
        state: SessionState,
        appends: AppendQueue,
        *,
        heard: Callable[[AppendAudio, AudioDecoded], None],
    ) -> None:
        self._state = state
        self._appends = appends
        self._heard = heard
        # A list, which is empty nearly always: an empty deque takes 760 bytes per session.
        self._line: list[PendingAppend | HeldStep] = []
        self._decoding: PendingAppend | None = None
        self._reset_stream = False
        self._reset_detector = False

    def __len__(self) -> int:
        return len(self._line)

    @property
    def holds_steps(self) -> bool:
        """Whether a command waits, so that later ones must not overtake it."""
        return any(isinstance(each, HeldStep) for each in self._line)

    @property
    def commits(self) -> int:
        """Commits of clients that wait, each with the pending turn it occupies."""
        return sum(isinstance(each, HeldStep) and each.turn is not None for each in self._line)

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._line

    @property
    def undecoded_bytes(self) -> int:
        """Bytes that wait to be decoded or are being decoded."""
        waiting = sum(each.held.amount for each in self._line if isinstance(each, PendingAppend))
        return waiting + (0 if self._decoding is None else self._decoding.held.amount)

    @property
    def moving_bytes(self) -> int:
        """Those, and the bytes of large commands that wait their turn."""
        steps = (each.held for each in self._line if isinstance(each, HeldStep))
        return self.undecoded_bytes + sum(held.amount for held in steps if held is not None)

    # joining

    def push_append(self, command: AppendAudio, held: Reservation) -> None:
        """Audio joins the line."""
        self._line.append(PendingAppend(command, held))

    def push_flush(self) -> None:
        """Before a commit: the last samples, which the resampler still holds, belong to it."""
        nothing = self._state.input_bytes.reserve(0)
        assert nothing is not None, "nothing always fits"
        self._line.append(PendingAppend(AppendAudio(), nothing, flush=True))

    def push(self, step: HeldStep) -> None:
        """A command joins the line."""
        self._line.append(step)

    @property
    def waits(self) -> bool:
        """Whether what joins now has something to wait for."""
        return bool(self._line) or self._decoding is not None or not self._appends.idle

    def weigh(self, held: Reservation) -> None:
        """The step that joined last occupies these bytes until its turn."""
        last = self._line[-1] if self._line else None
        if isinstance(last, HeldStep) and last.held is None:
            last.held = held
        else:
            held.release()

    def push_first(self, *steps: PendingAppend | HeldStep) -> None:
        """What the session asks of itself goes right behind what caused it."""
        self._line[:0] = steps

    # going on

    def advance(self) -> None:
        """Do all that can be done now."""
        while self._line and self._decoding is None and self._state.open:
            head = self._line[0]
            if isinstance(head, PendingAppend):
                self._line.pop(0)
                self._decode(head)
                return
            if head.settled and not self._appends.idle:
                return
            self._line.pop(0)
            head.leave()
            head.run()

    def _decode(self, append: PendingAppend) -> None:
        state = self._state
        command = append.command
        append.op = state.next_op()
        self._decoding = append
        audio_format = command.format or state.config.input_format
        state.do(
            DecodeAudio(
                append.op,
                command.audio,
                audio_format,
                command.sample_rate_hz or self._default_rate(audio_format),
                reset_stream=self._reset_stream or append.heard is not None,
                reset_detector=self._reset_detector,
                listen=state.has_detector and append.heard is None,
                flush=append.flush,
            )
        )
        self._reset_stream = self._reset_detector = False

    def _default_rate(self, audio_format: str) -> int:
        config = self._state.config
        if config.input_sample_rate_hz is not None:
            return config.input_sample_rate_hz
        native = self._state.capabilities.input_sample_rate_hz
        return G711_RATE if audio_format in G711_FORMATS else native

    def decoded(self, item: AudioDecoded) -> None:
        """An append came back: its admission ends, and it is heard unless it was dropped."""
        append = self._decoding
        if append is None or append.op != item.op:
            return
        self._decoding = None
        append.held.release()
        if not append.dropped and self._state.open:
            (append.heard or self._heard)(append.command, item)

    # resets

    def reset_stream(self) -> None:
        """Before the next append, forget the odd byte and the resampler's state."""
        self._reset_stream = True

    def reset_detector(self) -> None:
        """Before the next append, forget the detector's stream."""
        self._reset_detector = True

    # dropping

    def drop_audio(self) -> None:
        """Drop all audio; only where no step waits that would seal it."""
        for each in self._line:
            assert isinstance(each, PendingAppend), "a step that waits decides about its audio"
            each.held.release()
        self._line.clear()
        self._drop_decoding()

    def drop_all_input(self) -> None:
        """Drop all audio; steps that would seal it are aborted, others stay."""
        line, self._line = self._line, []
        self._drop_decoding()
        for each in line:
            if isinstance(each, PendingAppend):
                each.held.release()
            elif each.aborted is None:
                self._line.append(each)
            else:
                each.leave()
                each.aborted()

    def spoil(self) -> None:
        """A unit failed: the steps that wait for units to settle are told in their turn."""
        for each in self._line:
            if isinstance(each, HeldStep):
                each.spoiled = each.spoiled or each.settled

    def _drop_decoding(self) -> None:
        if self._decoding is not None:
            self._decoding.dropped = True

    def discard(self) -> None:
        """The session ends: nothing that waits is done."""
        self._drop_decoding()
        if self._decoding is not None:
            # Its outcome may never come: the shell of a session that ended waits for nothing.
            self._decoding.held.release()
        for each in self._line:
            if isinstance(each, PendingAppend):
                each.held.release()
                continue
            each.leave()
            if each.discarded is not None:
                each.discarded()
        self._line.clear()

    def take_answers(self) -> bool:
        """Take their answer away from the steps that wait for one.

        Returns:
            Whether there was any.
        """
        answering = [each for each in self._line if isinstance(each, HeldStep) and each.answers]
        for step in answering:
            step.answers = False
        return bool(answering)
