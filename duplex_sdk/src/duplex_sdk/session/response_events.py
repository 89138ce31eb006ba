"""The events of one response in their canonical order; opens and closes each thing exactly once.

The order is that of ``response.created``, ``response.output_item.added``,
``conversation.item.added``, ``response.content_part.added``, the deltas, and the closings in
reverse. Clients of OpenAI's API depend on it. A view: it decides nothing.
"""

from __future__ import annotations

from typing import Any

from duplex_sdk.protocol.duplex import (
    AudioDelta,
    AudioDone,
    AudioTextMark,
    ContentPart,
    ContentPartAdded,
    ContentPartDone,
    Item,
    ItemAdded,
    ItemDone,
    ItemStatus,
    OutputItemAdded,
    OutputItemDone,
    RateLimitsUpdated,
    ResponseCreated,
    ResponseDone,
    ResponseObject,
    ResponseStatus,
    Speak,
    StatusDetails,
    TextDelta,
    TextDone,
    TranscriptDelta,
    TranscriptDone,
)

from .response import Response
from .state import SessionState

__all__ = ["ResponseEvents"]

ITEM_STATUS: dict[ResponseStatus, ItemStatus] = {"completed": "completed"}


class ResponseEvents:
    """Tells the client about responses."""

    __slots__ = ("_state",)

    def __init__(self, state: SessionState) -> None:
        self._state = state

    def created(self, response: Response) -> None:
        """``response.created``."""
        self._state.emit(
            ResponseCreated,
            response_id=response.id,
            response=self._object(response, "in_progress"),
        )

    def open_part(self, response: Response) -> None:
        """Open the item and its first part, unless they are open."""
        if not response.item_open:
            self._open_item(response)
        if response.speaks and not response.audio_part_open:
            response.audio_part_open = True
            self._part(response, ContentPart(type="audio", transcript=""))
        if not response.speaks and not response.text_part_open:
            response.text_part_open = True
            self._part(response, ContentPart(type="text", text=""))

    def _open_item(self, response: Response) -> None:
        response.item_open = True
        state = self._state
        item = self.item(response, "in_progress", empty=True)
        state.emit(OutputItemAdded, response_id=response.id, item=item)
        if response.in_conversation:
            state.items.hold(item.id)
            previous = state.items.add(item)
            state.emit(ItemAdded, previous_item_id=previous, item=item)

    def _part(self, response: Response, part: ContentPart) -> None:
        self._state.emit(
            ContentPartAdded, response_id=response.id, item_id=response.item_id, part=part
        )

    def speak(self, response: Response) -> None:
        """``response.speak``, once, of a model that takes its own turns."""
        if response.spoke or not self._state.native:
            return
        response.spoke = True
        self._state.emit(
            Speak,
            response_id=response.id,
            item_id=response.item_id,
            metadata={
                "session_id": self._state.session_id,
                "epoch": self._state.epoch,
                "model_speak": True,
            },
        )

    def audio(
        self,
        response: Response,
        encoded: bytes,
        duration_ms: float,
        *,
        marks: list[AudioTextMark],
        end_of_turn: bool,
        extra: dict[str, Any],
    ) -> None:
        """One audio delta; positions in it are cumulative over the response."""
        state = self._state
        metadata: dict[str, Any] = {
            "session_id": state.session_id,
            "epoch": state.epoch,
            "model_speak": True,
            "end_of_turn": end_of_turn,
            "audio_duration_ms": int(response.audio_ms),
            "audio_text_marks": [
                {"text_chars": mark.text_chars, "audio_end_ms": mark.audio_end_ms} for mark in marks
            ],
            "playback": state.playback_snapshot(response.id),
        }
        if extra:
            metadata["duplex"] = extra
        state.emit(
            AudioDelta,
            response_id=response.id,
            item_id=response.item_id,
            delta=encoded,
            format=response.config.response_format,
            sample_rate_hz=response.config.output_rate(state.capabilities),
            metadata=metadata,
            duration_ms=duration_ms,
        )

    def text(self, response: Response, piece: str) -> None:
        """One delta of the words spoken, or of the written answer."""
        self._state.emit(
            TranscriptDelta if response.speaks else TextDelta,
            response_id=response.id,
            item_id=response.item_id,
            delta=piece,
        )

    def close(
        self,
        response: Response,
        status: ResponseStatus,
        *,
        details: StatusDetails | None = None,
        committed: bool,
        decision: str,
        item: Item | None,
    ) -> None:
        """Close everything that is open, then ``response.done`` and ``rate_limits.updated``.

        ``item`` is the item as it now stands in the conversation; None when none was opened.
        """
        if response.item_open and item is not None:
            self._close_part(response)
            self._close_item(response, item)
        self.done(
            response, status, details=details, committed=committed, decision=decision, item=item
        )
        self._state.emit(RateLimitsUpdated)

    def _close_part(self, response: Response) -> None:
        state = self._state
        address = {"response_id": response.id, "item_id": response.item_id}
        text = response.text
        if response.audio_part_open:
            if response.audio_ms or text:
                state.emit(AudioDone, **address)
            if text:
                state.emit(TranscriptDone, **address, transcript=text)
            state.emit(ContentPartDone, **address, part=ContentPart(type="audio", transcript=text))
        elif response.text_part_open:
            state.emit(TextDone, **address, text=text)
            state.emit(ContentPartDone, **address, part=ContentPart(type="text", text=text))

    def _close_item(self, response: Response, item: Item) -> None:
        state = self._state
        if response.in_conversation and item.id in state.items:
            state.emit(ItemDone, previous_item_id=state.items.previous_id(item.id), item=item)
        state.emit(OutputItemDone, response_id=response.id, item=item)

    def done(
        self,
        response: Response,
        status: ResponseStatus,
        *,
        details: StatusDetails | None,
        committed: bool,
        decision: str,
        item: Item | None,
    ) -> None:
        """``response.done`` alone, as an overflow ends a response."""
        facts: dict[str, Any] = {
            "decision": decision,
            "committed": committed,
            "playback": self._state.playback_snapshot(response.id),
        }
        if response.finish_reason:
            facts["finish_reason"] = response.finish_reason
        if response.stage_metrics and self._state.config.return_stage_metrics:
            facts["stage_metrics"] = response.stage_metrics
        self._state.emit(
            ResponseDone,
            response_id=response.id,
            response=self._object(
                response,
                status,
                details=details,
                output=() if item is None else (item,),
                facts=facts,
            ),
        )

    def call_done(self, response: Response, item: Item) -> None:
        """``response.done`` of a function call."""
        self._state.emit(
            ResponseDone,
            response_id=response.id,
            response=self._object(response, "completed", output=(item,)),
        )

    def item(
        self,
        response: Response,
        status: ItemStatus,
        *,
        transcript: str | None = None,
        empty: bool = False,
    ) -> Item:
        """The assistant item of a response with this much of its text."""
        shown = response.text if transcript is None and not empty else transcript or ""
        content: tuple[ContentPart, ...] = ()
        if not empty and response.speaks:
            content = (
                ContentPart(
                    type="output_audio",
                    transcript=shown,
                    audio_duration_ms=int(response.audio_ms),
                ),
            )
        elif not empty:
            content = (ContentPart(type="output_text", text=shown),)
        return Item(
            id=response.item_id, type="message", role="assistant", status=status, content=content
        )

    def _object(
        self,
        response: Response,
        status: ResponseStatus,
        *,
        details: StatusDetails | None = None,
        output: tuple[Item, ...] = (),
        facts: dict[str, Any] | None = None,
    ) -> ResponseObject:
        ours = {
            "session_id": self._state.session_id,
            "epoch": response.epoch,
            "turn_id": response.turn_id,
            **({} if response.in_conversation else {"conversation": "none"}),
            **(facts or {}),
        }
        return ResponseObject(
            id=response.id,
            status=status,
            status_details=details,
            output=output,
            output_modalities=tuple(response.config.modalities),
            usage=None if response.usage is None else response.usage.as_realtime(),
            metadata={**(response.metadata or {}), "duplex": ours},
        )
