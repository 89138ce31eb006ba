"""The user's input: from decoded audio to units for the model.

One append at a time: who speaks, what the overlap policy says while a response is in progress, and
then buffer, pre-roll or nothing. Nothing in here seals input; that is the commit's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from duplex_sdk.audio.chunk import PcmChunk
from duplex_sdk.plugin import AppendPiece
from duplex_sdk.protocol.duplex import AppendAudio, ClearInput, InputCleared, image_kind
from duplex_sdk.protocol.duplex import OverlapDecision as OverlapDecisionEvent
from duplex_sdk.stage import Image

from .append_queue import Append
from .overlap import OverlapDecisionResult, OverlapSnapshot, decide_overlap, overlap_applies
from .speech import classify_speech, speech_duration_ms
from .utterance import Utterance

if TYPE_CHECKING:
    from .append_queue import AppendQueue
    from .input_buffer import InputBuffer, TakenUnit
    from .inputs import AudioDecoded, SpeechVerdict
    from .response_flow import ResponseFlow
    from .state import SessionState
    from .turn_input import RetainedPiece
    from .waiting_line import WaitingLine

__all__ = ["Intake"]

SUSTAINED = "barge_in_on_sustained_speech"


class Intake:
    """Hears for one session.

    Args:
        state: the session.
        buffer: cuts input into units.
        appends: carries units to the stage.
        responses: tells of silence.
        barge_in: interrupts what is in progress, for a reason.
        turn_ended: the detector heard a turn end; it commits.
    """

    def __init__(
        self,
        state: SessionState,
        buffer: InputBuffer,
        appends: AppendQueue,
        responses: ResponseFlow,
        *,
        barge_in: Callable[[str], None],
        turn_ended: Callable[[], None],
    ) -> None:
        self._state = state
        self._buffer = buffer
        self._appends = appends
        self._responses = responses
        self._barge_in = barge_in
        self._turn_ended = turn_ended
        self.utterance = Utterance(state)
        self.line: WaitingLine

    # what is in progress

    @property
    def response_pending(self) -> bool:
        """A response is open, or input is under way that will be answered."""
        return self._state.response is not None or self._appends.answering

    @property
    def response_in_progress(self) -> bool:
        """A response is pending, or the audio of the last one still plays."""
        state = self._state
        return self.response_pending or state.playback.still_playing(
            state.now, server_vad=state.has_detector
        )

    @property
    def streams(self) -> bool:
        """Whether units go to the model before any commit."""
        return self._state.auto_responds or self._state.early_input

    @property
    def _emits(self) -> bool:
        """Whether units may leave now: a turn whose commit will be refused is not heard on."""
        state = self._state
        return state.auto_responds or (state.early_input and not state.turn_input.failed)

    # hearing

    def hear(self, command: AppendAudio, item: AudioDecoded) -> None:
        """Take in one decoded append."""
        if item.fault is not None and not self._survives(command, item):
            return
        if item.audio is None and not command.video_frames:
            return
        state = self._state
        turn = state.turn_input
        verdict, audio = item.verdict, item.audio
        began_ms = turn.clock_ms
        turn.clock_ms += 0.0 if audio is None else audio.duration_ms
        speech = classify_speech(
            command, verdict, audio, silence_rms=state.config.overlap_silence_rms
        )
        self._settle_overlap()
        decision = self._overlap(command, verdict, audio, speech)
        self._tell_begin(verdict, began_ms, speech=speech, decision=decision)
        self._carry_out(command, verdict, audio, speech, decision)
        self._tell_end(verdict)

    def _survives(self, command: AppendAudio, item: AudioDecoded) -> bool:
        """Whether the audio is sound although something failed: then only the detector did."""
        assert item.fault is not None
        if item.fault.code == "server_vad_unavailable":
            self.detector_lost(item.fault.message)
            return item.audio is not None
        self._state.fail(
            item.fault.code, item.fault.message, command=command, param=item.fault.param
        )
        return False

    def detector_lost(self, message: str) -> None:
        """The detector failed: the session goes on without one."""
        self._state.detector_works = False
        self._state.fail("server_vad_unavailable", message)

    def _settle_overlap(self) -> None:
        """A response that was spoken over is over by now: what follows is an ordinary turn."""
        if not self.response_in_progress:
            self._state.turn_input.overlap_speech_ms = 0.0
            self.utterance.release_start()

    def settle_speech(self) -> None:
        """A start that was kept back is told as soon as nothing is spoken over any more."""
        if self._state.turn_input.held_start is not None and not self.response_in_progress:
            self.utterance.release_start()

    # overlap

    def _overlap(
        self,
        command: AppendAudio,
        verdict: SpeechVerdict,
        audio: PcmChunk | None,
        speech: bool,
    ) -> OverlapDecisionResult | None:
        state = self._state
        config, capabilities, hints = state.config, state.capabilities, command.hints
        if self._streams_on(command) or not self.response_in_progress:
            return None
        snapshot = OverlapSnapshot(
            policy=config.overlap_policy,
            supports_barge_in=capabilities.supports_barge_in,
            auto_responds=state.auto_responds,
            is_speech=speech,
            duration_ms=self._spoken_ms(command, verdict, audio),
            overlap_speech_ms=int(state.turn_input.overlap_speech_ms),
            short_ack_ms=config.overlap_short_ack_ms,
            barge_in_ms=config.overlap_barge_in_ms,
            overlap_hint=hints.overlap_action,
            force_barge_in=hints.force_barge_in,
            force_listen=hints.force_listen,
            transcript=hints.transcript,
            vad_onset=_onset(verdict),
            has_frames=bool(command.video_frames),
            frames_alone_allowed="audio" not in capabilities.required_input_modalities,
        )
        return decide_overlap(snapshot) if overlap_applies(snapshot) else None

    def _streams_on(self, command: AppendAudio) -> bool:
        """The usual case of a session that answers unasked, told without a snapshot."""
        state = self._state
        listens = state.config.overlap_policy == "listen_only"
        hints = command.hints
        hinted = hints.overlap_action is not None or hints.force_barge_in or hints.force_listen
        return state.auto_responds and listens and not hinted

    @staticmethod
    def _spoken_ms(command: AppendAudio, verdict: SpeechVerdict, audio: PcmChunk | None) -> int:
        """How much speech an append adds; the silence that ends an utterance is none."""
        if verdict.voiced_ms is not None:
            return int(verdict.voiced_ms)
        return speech_duration_ms(command, audio)

    def _carry_out(
        self,
        command: AppendAudio,
        verdict: SpeechVerdict,
        audio: PcmChunk | None,
        speech: bool,
        decision: OverlapDecisionResult | None,
    ) -> None:
        if decision is None:
            if self._skips(verdict, command):
                self._skip_silence(audio)
            else:
                self._take(command, verdict, audio, speech, stream=True)
            return
        self._state.turn_input.overlap_speech_ms = decision.overlap_speech_ms
        if decision.action == "barge_in":
            self.utterance.release_start()
        self._tell_decision(decision)
        if decision.reason == "barge_in_unsupported" and decision.action == "listen":
            self._refuse_barge_in(command)
        if decision.action == "barge_in":
            self._barge_in(decision.cancel_reason or "barge_in")
            self._state.turn_input.overlap_speech_ms = 0.0
        if decision.buffer_audio:
            self._take(command, verdict, audio, speech, stream=not decision.defer_append)
        elif decision.reason == "silence_or_noise" and audio is not None:
            self._keep_preroll(audio)
        elif not speech or decision.action == "drop":
            return
        else:
            # An acknowledgement: nothing of it becomes a turn.
            self.utterance.end()

    def _tell_decision(self, decision: OverlapDecisionResult) -> None:
        self._state.emit(
            OverlapDecisionEvent,
            policy=self._state.config.overlap_policy,
            action=decision.action,
            reason=decision.reason,
            metadata=decision.metadata(),
        )

    def _refuse_barge_in(self, command: AppendAudio) -> None:
        if command.hints.force_barge_in or command.hints.overlap_action is not None:
            self._state.fail(
                "barge_in_unsupported", "this model cannot be interrupted", command=command
            )

    # begin and end of speech

    def _tell_begin(
        self,
        verdict: SpeechVerdict,
        began_ms: float,
        *,
        speech: bool,
        decision: OverlapDecisionResult | None,
    ) -> None:
        state = self._state
        hold = decision is not None and state.config.overlap_policy == SUSTAINED
        hold = hold and decision is not None and decision.action != "barge_in"
        if state.has_detector:
            for mark in verdict.marks:
                if mark.kind == "started":
                    self.utterance.begin(mark.at_ms, hold=hold)
                elif any(m.kind == "started" for m in verdict.marks[1:]):
                    # One chunk ends an utterance and begins the next: the end comes first.
                    self.utterance.end(mark.at_ms)
        elif speech and not state.auto_responds:
            self.utterance.begin(began_ms, hold=hold)

    def _tell_end(self, verdict: SpeechVerdict) -> None:
        """The detector's last word on a chunk; only in turn mode does it end a turn."""
        state = self._state
        stopped = [mark for mark in verdict.marks if mark.kind == "stopped"]
        if not state.has_detector or not stopped or verdict.active:
            return
        self.utterance.end(stopped[-1].at_ms)
        if not state.auto_responds:
            self._turn_ended()

    # where the audio goes

    def _skips(self, verdict: SpeechVerdict, command: AppendAudio) -> bool:
        """Whether a chunk lies outside any utterance, in turn mode under a detector."""
        state = self._state
        if state.auto_responds or not state.has_detector or verdict.is_speech is not False:
            return False
        alone = "audio" not in state.capabilities.required_input_modalities
        return not (command.video_frames and alone)

    def _skip_silence(self, audio: PcmChunk | None) -> None:
        if audio is None:
            return
        self._keep_preroll(audio)
        turn = self._state.turn_input
        turn.skipped_ms += audio.duration_ms
        period = self._state.capabilities.chunk_period_ms or 100
        if turn.skipped_ms >= period:
            turn.skipped_ms %= period
            self._responses.listen("silence_or_noise")

    def _keep_preroll(self, audio: PcmChunk) -> None:
        if self._state.has_detector:
            self._buffer.skip(audio)

    def _take(
        self,
        command: AppendAudio,
        verdict: SpeechVerdict,
        audio: PcmChunk | None,
        speech: bool,
        *,
        stream: bool,
    ) -> None:
        state = self._state
        if _onset(verdict):
            audio = PcmChunk.join((self._buffer.take_preroll(), audio))
        size = 0 if audio is None else len(audio.data)
        if not self._buffer.fits(size):
            self._refuse_room(command)
            return
        turn = state.turn_input
        turn.has_speech |= speech
        turn.had_silence |= not speech
        turn.audio_ms += 0.0 if audio is None else audio.duration_ms
        turn.transcript_hint = command.hints.transcript or turn.transcript_hint
        piece = AppendPiece(
            audio=audio,
            is_speech=verdict.is_speech,
            force_listen=command.hints.force_listen or (state.native and verdict.active),
            images=tuple(_image(frame) for frame in command.video_frames),
        )
        self._queue(self._buffer.add(piece, emit=stream and self._emits))

    def _refuse_room(self, command: AppendAudio) -> None:
        self._state.fail(
            "input_backpressure",
            "too much audio waits to be committed; commit or clear the input buffer",
            command=command,
        )

    def _queue(self, units: list[TakenUnit]) -> None:
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
        if self._emits and not self.response_pending:
            self._queue(self._buffer.drain())

    # dropping

    def clear(self, command: ClearInput) -> None:
        """``input_audio_buffer.clear``: what no commit has sealed, and what waits unanswered.

        Audio that is not decoded yet is the caller's: none may stand before this command.
        """
        del command
        self.drop_open_turn()
        self._state.turn_input.release_retained()
        self.line.reset_stream()
        self.line.reset_detector()
        self._state.emit(InputCleared)

    def drop_open_turn(self) -> None:
        """Forget the turn under way; a model that has heard some of it is told to forget it too."""
        state = self._state
        turn = state.turn_input
        heard = bool(turn.early) or (state.early_input and not self._appends.idle)
        self._buffer.clear()
        self._appends.forget_cleared()
        turn.release_early()
        self.utterance.end()
        turn.begin_next()
        turn.overlap_speech_ms = 0.0
        if heard:
            self._appends.push(Append(AppendPiece(kind="discard", respond=False), state.epoch))

    def drop_all(self) -> None:
        """Forget all input, also what a commit that still waits would have sealed."""
        turn = self._state.turn_input
        self.line.drop_all_input()
        self._buffer.clear()
        self._appends.forget_cleared()
        turn.release_early()
        turn.release_retained()
        self.utterance.end()
        turn.begin_next()
        turn.overlap_speech_ms = 0.0
        self.line.reset_stream()
        self.line.reset_detector()

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


def _onset(verdict: SpeechVerdict) -> bool | None:
    """Whether an utterance began in the chunk; None when no detector ran."""
    if verdict.is_speech is None:
        return None
    return any(mark.kind == "started" for mark in verdict.marks)


def _image(frame: bytes) -> Image:
    return Image(f"image/{image_kind(frame) or 'jpeg'}", frame)
