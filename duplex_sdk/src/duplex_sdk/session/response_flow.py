"""A response from its opening to its end: ledgers, history and the events that tell of it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from duplex_sdk.audio import OutputEncoder
from duplex_sdk.protocol.duplex import (
    AudioTextMark,
    Item,
    Listen,
    ResponseStatus,
    StatusDetails,
    error_type,
)

from .finish import CUT_SHORT
from .response import Response
from .response_events import ResponseEvents
from .spoken_text import SpokenText
from .state import TurnState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duplex_sdk.audio import PcmChunk
    from duplex_sdk.plugin import ModelResult, ResponseCreateOptions

    from .inputs import Fault
    from .state import SessionState

__all__ = ["ResponseFlow", "spoken_text"]

Decision = Literal["speak", "listen"]


def spoken_text(response: Response) -> SpokenText:
    """What a response has said so far, with its alignment."""
    return SpokenText(
        text=response.text,
        marks=response.marks,
        audio_ms=response.audio_ms,
        written=not response.speaks,
    )


class ResponseFlow:
    """Opens, feeds and ends responses. The conversation has at most one open.

    Args:
        state: the session.
        ended: told after the events of each response of the conversation that was not cancelled;
            False: it failed.
    """

    __slots__ = ("_ended", "_events", "_state")

    def __init__(self, state: SessionState, *, ended: Callable[[bool], None]) -> None:
        self._state = state
        self._events = ResponseEvents(state)
        self._ended = ended

    # opening

    def open(
        self,
        options: ResponseCreateOptions | None = None,
        *,
        bound: bool = False,
    ) -> Response:
        """Begin the response of the conversation and say so.

        Args:
            options: its own, over the session's config.
            bound: an append brings what it answers.
        """
        state = self._state
        assert state.response is None, "a conversation has at most one response"
        response = self._new(options, bound=bound)
        state.response = response
        response.stage_metrics, state.stage_metrics = state.stage_metrics, {}
        response.usage, state.usage = state.usage, None
        state.last_response_id = response.id
        state.turn_state = TurnState.ASSISTANT_GENERATING
        state.playback.open(response.id)
        state.history.open_response(response.id)
        state.history.mark_answered()
        if response.config != state.config:
            state.publish_config()
        self._events.created(response)
        return response

    def open_beside(self, options: ResponseCreateOptions) -> Response:
        """Begin a response outside the conversation, which goes on as it is, and say so."""
        state = self._state
        response = self._new(options, bound=True)
        response.in_conversation, response.apart = False, True
        state.beside[response.id] = response
        state.playback.open(response.id, current=False)
        self._events.created(response)
        return response

    def drain(self, response: Response, request_id: str) -> None:
        """The next turn begins while this one's last audio is still to come, by its own request."""
        state = self._state
        response.apart, response.request_id = True, request_id
        state.beside[response.id] = response
        state.response = None
        state.turn_id = max(state.turn_id, response.turn_id + 1)
        if response.config != state.config:
            state.publish_config()

    def _new(self, options: ResponseCreateOptions | None, *, bound: bool) -> Response:
        state = self._state
        return Response(
            id=state.ids.response(),
            epoch=state.epoch,
            turn_id=state.turn_id,
            commit_seq=state.commit_seq,
            config=state.config if options is None else options.apply_to(state.config),
            metadata=options.metadata if options is not None else None,
            bound=bound,
        )

    def _encoder(self, response: Response) -> OutputEncoder:
        capabilities = self._state.capabilities
        response.encoder = OutputEncoder(
            response.config.response_format,
            capabilities.output_sample_rate_hz,
            response.config.output_rate(capabilities),
        )
        return response.encoder

    # output

    def say(self, response: Response, result: ModelResult) -> None:
        """Audio, text or both of one model result."""
        audio = result.audio if response.speaks else None
        text = response.fit(result.text) if result.text else ""
        if audio is None and not text:
            return
        if not (response.audio_part_open or response.text_part_open):
            self._events.open_part(response)
            if response.speaks:
                self._events.speak(response)
        response.requires_complete_audio |= result.text_requires_complete_audio
        response.audio_complete |= result.audio_complete
        if audio is None:
            self._write(response, text, result)
        else:
            self._speak(response, audio, text, result)

    def _write(self, response: Response, text: str, result: ModelResult) -> None:
        self._align(response, text, 0.0, result)
        self._events.text(response, text)

    def _speak(self, response: Response, audio: PcmChunk, text: str, result: ModelResult) -> None:
        state = self._state
        encoded = (response.encoder or self._encoder(response)).encode(audio)
        duration_ms = audio.duration_ms
        marks = self._align(response, text, duration_ms, result)
        state.playback.add_generated(response.id, duration_ms)
        if encoded:
            self._send(response, encoded, duration_ms, marks, result)
        if text or encoded:
            self._events.text(response, text)

    def _send(
        self,
        response: Response,
        encoded: bytes,
        duration_ms: float,
        marks: list[AudioTextMark],
        result: ModelResult,
    ) -> None:
        state = self._state
        state.audio_started = True
        state.playback.add_sent(response.id, duration_ms, state.now)
        self._events.audio(
            response,
            encoded,
            duration_ms,
            marks=marks,
            end_of_turn=result.end_of_turn,
            extra=dict(result.metadata),
        )

    def _align(
        self, response: Response, text: str, duration_ms: float, result: ModelResult
    ) -> list[AudioTextMark]:
        """Count the new text and audio; where they line up is offset by what was there before."""
        chars, ms = response.text_chars, response.audio_ms
        if text:
            response.add_text(text)
        response.audio_ms = ms + duration_ms
        if result.marks is None:
            marks = [AudioTextMark(response.text_chars, int(response.audio_ms))]
        else:
            marks = [AudioTextMark(chars + c, int(ms + at)) for c, at in result.marks]
        if response.speaks:
            for mark in marks:
                response.marks.add(mark)
        return marks

    # ends

    def complete(
        self, response: Response, *, listened: bool = False, reason: str = "", finish: str = ""
    ) -> None:
        """The model's turn is over.

        Args:
            response: which.
            listened: it chose to say nothing.
            reason: why it listened.
            finish: why it stopped speaking, in its own words; ``length``: it was not allowed more.
        """
        decision: Decision = "listen" if listened and not response.item_open else "speak"
        cut = decision == "speak" and finish == CUT_SHORT
        if decision == "listen":
            self.listen(reason or "model_listen", response=response)
        else:
            response.finish_reason = finish
        self._flush(response)
        details = StatusDetails(type="incomplete", reason="max_output_tokens") if cut else None
        status: ResponseStatus = "incomplete" if cut else "completed"
        self._end(response, status, details=details, decision=decision)
        self._tell_end(response, well=True)

    def break_off(self, response: Response, reason: str) -> None:
        """End a response that would not end; its unfinished text stays out of the conversation."""
        self.listen(reason, response=response)
        self._flush(response)
        item, _ = self.settle(response, "completed")
        self._state.history.discard_response(response.id)
        self._events.close(response, "completed", committed=False, decision="speak", item=item)
        self._ended(True)

    def _flush(self, response: Response) -> None:
        """What the resampler still holds belongs to the answer."""
        tail = response.encoder.flush() if response.encoder is not None else b""
        cursor = self._state.playback.cursor(response.id)
        if tail and cursor is not None:
            # A first piece so short that the resampler kept all of it was not counted as sent.
            kept_ms = max(0.0, cursor.generated_ms - cursor.sent_ms)
            self._state.playback.add_sent(response.id, kept_ms, self._state.now)
            self._events.audio(response, tail, kept_ms, marks=[], end_of_turn=True, extra={})
            self._events.text(response, "")

    def cancelled(
        self, response: Response, reason: str, *, item: Item | None, committed: bool
    ) -> None:
        """Tell of a response that was interrupted and settled; the new epoch has begun."""
        self._events.close(
            response,
            "cancelled",
            details=StatusDetails(type="cancelled", reason=reason),
            committed=committed,
            decision="speak",
            item=item,
        )

    def fail(self, response: Response, fault: Fault) -> None:
        """End a response that broke; no text of it stays in the conversation."""
        self._end(response, "failed", details=failure(fault.code, fault.message))
        self._tell_end(response, well=False)

    def failed_alone(
        self, response: Response, details: StatusDetails, item: Item | None, *, told: bool
    ) -> None:
        """The one event that ends a response whose closings found no room.

        ``told``: its client knows of it; else there is nothing to end for it.
        """
        if told:
            self._events.done(
                response, "failed", details=details, committed=False, decision="speak", item=item
            )
        self._tell_end(response, well=False)

    def _tell_end(self, response: Response, *, well: bool) -> None:
        """Nobody in the conversation waits for the end of what is beside it."""
        if not response.apart:
            self._ended(well)

    def _end(
        self,
        response: Response,
        status: ResponseStatus,
        *,
        details: StatusDetails | None = None,
        decision: Decision = "speak",
    ) -> None:
        item, committed = self.settle(response, status)
        self._events.close(
            response, status, details=details, committed=committed, decision=decision, item=item
        )

    def settle(self, response: Response, status: ResponseStatus) -> tuple[Item | None, bool]:
        """Close the ledgers of a response.

        Returns:
            Its item as the conversation now holds it, and whether history has text of it.
        """
        item: Item | None = None
        committed = False
        if response.item_open:
            text, committed = self._remembered(response, status)
            item = self._events.item(
                response, "completed" if status == "completed" else "incomplete", transcript=text
            )
            if item.id in self._state.items:
                self._state.items.replace(item)
        elif response.in_conversation:
            self._state.history.delete(response.item_id)
        self._leave(response)
        return item, committed

    def _remembered(self, response: Response, status: ResponseStatus) -> tuple[str, bool]:
        """What its item shows, and whether history has text of it."""
        if not response.in_conversation:
            return response.text, False
        cursor = self._state.playback.cursor(response.id)
        assert cursor is not None
        cursor.text_requires_complete_audio = response.requires_complete_audio
        cursor.audio_complete = response.audio_complete
        policy = response.config.playback_commit_policy
        kept = self._state.history.end_response(
            response.id, spoken_text(response), cursor, policy, _ending(status)
        )
        if kept is None:
            return response.text, False
        over = status in ("completed", "incomplete")
        decided = kept.committed or cursor.cap_ms is not None
        # Of what nobody has said yet how much was heard, the item waits with all its words.
        waits = over and policy == "ack_only" and not decided
        return response.text if waits else kept.text, kept.committed

    def _leave(self, response: Response) -> None:
        state = self._state
        state.items.let_go(response.item_id)
        for forgotten in state.playback.finish(response.id):
            state.history.forget_alignment(forgotten)
        if response.apart:
            del state.beside[response.id]
            return
        state.response = None
        state.turn_state = TurnState.IDLE
        if response.config != state.config:
            state.publish_config()

    # silence

    def listen(
        self,
        reason: str,
        *,
        response: Response | None = None,
        extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """``response.listen``: the model keeps listening."""
        state = self._state
        body: dict[str, Any] = {
            "object": "realtime.response",
            "status": "listening",
            "metadata": {
                "type": "response.listen",
                "session_id": state.session_id,
                "epoch": state.epoch,
                "reason": reason,
                **extra,
            },
        }
        if response is not None:
            body["id"] = response.id
        state.emit(Listen, response=body, response_id=None if response is None else response.id)


def failure(code: str, message: str) -> StatusDetails:
    """Why a response failed."""
    return StatusDetails(
        type="failed",
        reason=code,
        error={"type": error_type(code), "code": code, "message": message},
    )


def _ending(
    status: ResponseStatus,
) -> Literal["completed", "incomplete", "cancelled", "failed"]:
    assert status != "in_progress"
    return status
