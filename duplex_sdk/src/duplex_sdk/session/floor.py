"""Who has the floor: whether an answer is under way or still plays."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .append_queue import AppendQueue
    from .state import SessionState

__all__ = ["Floor"]


class Floor:
    """What is in progress in the conversation of one session; it changes nothing.

    Args:
        state: the session.
        appends: input under way may be on its way to an answer.
    """

    __slots__ = ("_appends", "_state")

    def __init__(self, state: SessionState, appends: AppendQueue) -> None:
        self._state = state
        self._appends = appends

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
    def emits(self) -> bool:
        """Whether units may leave now: a turn whose commit will be refused is not heard on."""
        state = self._state
        return state.auto_responds or (state.early_input and not state.turn_input.failed)
