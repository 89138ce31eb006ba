"""Begin and end of what the user says, as the client is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import SpeechStarted, SpeechStopped

from .state import TurnState
from .turn_input import HeldSpeechStart

if TYPE_CHECKING:
    from .state import SessionState

__all__ = ["Utterance"]


class Utterance:
    """Tells of speech; under sustained-speech barge-in a start over a response is held back.

    Stock clients stop their playback on ``speech_started``, and a short acknowledgement must not
    do that.
    """

    __slots__ = ("_state",)

    def __init__(self, state: SessionState) -> None:
        self._state = state

    def begin(self, at_ms: float, *, hold: bool) -> None:
        """Speech began at ``at_ms`` of the input clock; once per utterance."""
        state = self._state
        turn = state.turn_input
        if turn.utterance_open:
            return
        turn.utterance_open = True
        if turn.item_id is None:
            turn.item_id = state.ids.item()
        if state.response is None:
            state.turn_state = TurnState.USER_SPEAKING
        if hold:
            turn.held_start = HeldSpeechStart(int(at_ms))
        else:
            self._tell_start(int(at_ms))

    def _tell_start(self, at_ms: int) -> None:
        turn = self._state.turn_input
        turn.held_start = None
        turn.start_told = True
        self._state.emit(SpeechStarted, audio_start_ms=at_ms, item_id=turn.item_id)

    def release_start(self) -> None:
        """What held the start back is over: tell it now."""
        held = self._state.turn_input.held_start
        if held is not None:
            self._tell_start(held.at_ms)

    def end(self, at_ms: float | None = None) -> None:
        """The utterance is over: tell its end if its begin was told."""
        turn = self._state.turn_input
        turn.utterance_open = False
        turn.held_start = None
        if turn.start_told:
            turn.start_told = False
            ended = turn.clock_ms if at_ms is None else at_ms
            self._state.emit(SpeechStopped, audio_end_ms=int(ended), item_id=turn.item_id)
