"""From stage outputs to model results: the plugin's part that reads raw output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from duplex_sdk.audio import PcmChunk
    from duplex_sdk.stage import Json, StageError, StageOutput, ToolCall

    from .session_state import DuplexModelSessionState

__all__ = ["DuplexDataPlane", "ModelResult"]


class ModelResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one output says, in the engine's words.

    Attributes:
        audio: new samples only, at the model's output rate.
        text: new text only.
        marks: ``(characters, ms)`` inside this result. None: the text so far ends where the audio
            so far ends. Empty: unaligned.
        listen: the model listens.
        end_of_turn: the model's turn is over.
        tool_call: the model calls a tool.
        error: something failed.
        reason: why it listens.
        buffering: it listens because it still gathers input.
        text_requires_complete_audio: the text is true only of the whole audio.
        audio_complete: no more audio comes in this turn.
        metadata: copied to the event. ``finish_reason`` in that of a turn's end says why it ended:
            ``stop`` unless stated, ``length`` where the answer reached the most tokens allowed.
    """

    audio: PcmChunk | None = None
    text: str | None = None
    marks: tuple[tuple[int, float], ...] | None = None
    listen: bool = False
    end_of_turn: bool = False
    tool_call: ToolCall | None = None
    error: StageError | None = None
    reason: str = ""
    buffering: bool = False
    text_requires_complete_audio: bool = False
    audio_complete: bool = False
    metadata: Mapping[str, Json] = {}


class DuplexDataPlane:
    """One per plugin. It holds nothing of a session: every call gets the session's state."""

    def project(
        self, output: StageOutput, *, state: DuplexModelSessionState, context: object
    ) -> Iterable[ModelResult]:
        """What an output says; by default field by field, and nothing for an output without any.

        Args:
            output: of the last stage, of a direct response, or of a stage that is shown as well.
            state: the session's.
            context: what ``data_plane_context`` made.
        """
        if not (
            output.audio is not None
            or output.text
            or output.listen
            or output.end_of_turn
            or output.tool_call is not None
            or output.error is not None
        ):
            return ()
        return (
            ModelResult(
                audio=output.audio,
                text=output.text,
                marks=output.marks,
                listen=output.listen,
                end_of_turn=output.end_of_turn,
                tool_call=output.tool_call,
                error=output.error,
                metadata=_finish(output),
            ),
        )

    def begin_request(self, request_id: str, *, state: DuplexModelSessionState) -> None:
        """An append of this request was accepted. By default nothing."""

    def close_stream(self, request_id: str, *, state: DuplexModelSessionState) -> None:
        """This request was cancelled or is finished. By default nothing."""


def _finish(output: StageOutput) -> Mapping[str, Json]:
    if not output.end_of_turn or "finish_reason" not in output.data:
        return {}
    return {"finish_reason": output.data["finish_reason"]}
