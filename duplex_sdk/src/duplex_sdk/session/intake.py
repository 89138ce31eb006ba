"""The user's input: from decoded audio to units for the model.

One append at a time: who speaks, what the overlap policy says while a response is in progress, and
then buffer, pre-roll or nothing. Nothing in here seals input; that is the commit's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from duplex_sdk.audio.chunk import PcmChunk
from duplex_sdk.plugin import AppendPiece
from duplex_sdk.protocol.duplex import AppendAudio, image_kind
from duplex_sdk.protocol.duplex import OverlapDecision as OverlapDecisionEvent
from duplex_sdk.stage import Image

from .overlap import OverlapDecisionResult, OverlapSnapshot, decide_overlap, overlap_applies
from .speech import classify_speech, speech_duration_ms

if TYPE_CHECKING:
    from .floor import Floor
    from .input_buffer import InputBuffer
    from .inputs import AudioDecoded, SpeechVerdict
    from .open_turn import OpenTurn
    from .response_flow import ResponseFlow
    from .state import SessionState
    from .utterance import Utterance

__all__ = ["Intake"]

SUSTAINED = "barge_in_on_sustained_speech"


class Intake:
    """Hears for one session.

    Args:
        state: the session.
        buffer: cuts input into units.
        floor: knows what is in progress.
        open_turn: where units go.
        utterance: tells of begin and end of speech.
        responses: tells of silence.
        barge_in: interrupts what is in progress, for a reason.
        turn_ended: the detector heard a turn end; it commits.
    """

    __slots__ = (
        "_barge_in",
        "_buffer",
        "_floor",
        "_open_turn",
        "_responses",
        "_state",
        "_turn_ended",
        "_utterance",
    )

    def __init__(
        self,
        state: SessionState,
        buffer: InputBuffer,
        floor: Floor,
        open_turn: OpenTurn,
        utterance: Utterance,
        responses: ResponseFlow,
        *,
        barge_in: Callable[[str], None],
        turn_ended: Callable[[], None],
    ) -> None:
        self._state = state
        self._buffer = buffer
        self._floor = floor
        self._open_turn = open_turn
        self._utterance = utterance
        self._responses = responses
        self._barge_in = barge_in
        self._turn_ended = turn_ended

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
        if verdict.marks:
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
        self._state.trust_detector(False)
        self._state.fail("server_vad_unavailable", message)

    def _settle_overlap(self) -> None:
        """A response that was spoken over is over by now: what follows is an ordinary turn."""
        if not self._floor.response_in_progress:
            self._state.turn_input.overlap_speech_ms = 0.0
            self._utterance.release_start()

    def settle_speech(self) -> None:
        """A start that was kept back is told as soon as nothing is spoken over any more."""
        if self._state.turn_input.held_start is not None and not self._floor.response_in_progress:
            self._utterance.release_start()

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
        if self._streams_on(command) or not self._floor.response_in_progress:
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
        """How much speech an append adds: the client's word for it, else the detector's.

        To the detector the silence that ends an utterance is none.
        """
        if verdict.voiced_ms is not None and command.duration_ms is None:
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
            self._utterance.release_start()
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
            self._utterance.end()

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
        if not state.has_detector:
            if speech and not state.auto_responds:
                self._utterance.begin(began_ms, hold=hold)
        elif verdict.marks:
            for mark in verdict.marks:
                if mark.kind == "started":
                    self._utterance.begin(mark.at_ms, hold=hold)
                elif any(m.kind == "started" for m in verdict.marks[1:]):
                    # One chunk ends an utterance and begins the next: the end comes first.
                    self._utterance.end(mark.at_ms)

    def _tell_end(self, verdict: SpeechVerdict) -> None:
        """The detector's last word on a chunk; only in turn mode does it end a turn."""
        state = self._state
        stopped = [mark for mark in verdict.marks if mark.kind == "stopped"]
        if not state.has_detector or not stopped or verdict.active:
            return
        self._utterance.end(stopped[-1].at_ms)
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
            images=tuple(map(_image, command.video_frames)),
        )
        self._open_turn.queue(self._buffer.add(piece, emit=stream and self._floor.emits))

    def _refuse_room(self, command: AppendAudio) -> None:
        self._state.fail(
            "input_backpressure",
            "too much audio waits to be committed; commit or clear the input buffer",
            command=command,
        )


def _onset(verdict: SpeechVerdict) -> bool | None:
    """Whether an utterance began in the chunk; None when no detector ran."""
    if verdict.is_speech is None:
        return None
    return bool(verdict.marks) and any(mark.kind == "started" for mark in verdict.marks)


def _image(frame: bytes) -> Image:
    return Image(f"image/{image_kind(frame) or 'jpeg'}", frame)
