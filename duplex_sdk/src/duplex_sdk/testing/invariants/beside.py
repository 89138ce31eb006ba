"""Laws of our own, from 121: what no numbered sentence says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duplex_sdk.protocol.duplex import (
    AckPlayback,
    BargeIn,
    CancelInput,
    ClearInput,
    ClearOutputAudio,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    DuplexRawEvent,
    ErrorEvent,
    Heartbeat,
    InputCleared,
    OutputAudioCleared,
    PlaybackAcknowledged,
    RetrieveItem,
    SessionHeartbeatAck,
    SignalTurn,
    TruncateItem,
    UpdateSession,
)
from duplex_sdk.session import effects

from .law import law
from .signs import CommitInLine

if TYPE_CHECKING:
    from .step import Step


@law(121, "step", effects.Report)
def nothing_breaks_inside(step: Step) -> bool:
    """No step of the core fails in a way it did not expect."""
    for effect in step.asks(effects.Report):
        assert effect.level != "error", effect.message
    return True


_IN_LINE = (
    ClearInput,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    RetrieveItem,
    SignalTurn,
    TruncateItem,
    UpdateSession,
)
"""They keep their place behind a commit that waits."""

_BY_THE_WAY = (ErrorEvent, DuplexRawEvent)
"""News of units that are late, and of the length of the session, may come with any step."""

_AT_ONCE: dict[type[Any], type[Any]] = {
    AckPlayback: PlaybackAcknowledged,
    BargeIn: InputCleared,
    CancelInput: InputCleared,
    ClearOutputAudio: OutputAudioCleared,
    Heartbeat: SessionHeartbeatAck,
}
"""They pass it, and this tells that they were carried out."""


@law(122, "step", CommitInLine)
def who_may_pass_a_waiting_commit(step: Step) -> bool:
    """Cancels, acknowledgements and heartbeats are carried out at once, all others wait."""
    command = step.command
    if command is None or step.before.phase != "open" or step.state.overflowed:
        return False
    if type(command) in _IN_LINE:
        told = [event.type for event in step.events if type(event) not in _BY_THE_WAY]
        assert not told, f"{type(command).__name__} passed a commit: {told}"
        return True
    if type(command) not in _AT_ONCE:
        return False
    refused = command.event_id in step.refusals
    carried_out = step.tells(_AT_ONCE[type(command)])
    assert refused or carried_out, f"{type(command).__name__} waits behind a commit"
    return bool(carried_out)
