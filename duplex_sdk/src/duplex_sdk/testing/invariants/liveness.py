"""Laws 117 to 120: whatever hangs, everybody is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duplex_sdk.protocol.duplex import (
    AckPlayback,
    BargeIn,
    CancelInput,
    ClearInput,
    DeleteItem,
    Heartbeat,
    InputCleared,
    ItemDeleted,
    ItemRetrieved,
    ItemTruncated,
    PlaybackAcknowledged,
    ResponseDone,
    RetrieveItem,
    SessionHeartbeatAck,
    SessionUpdated,
    SignalTurn,
    TruncateItem,
    TurnEvent,
    UpdateSession,
)
from duplex_sdk.session import effects, inputs

from .law import law
from .moved import EpochMoved

if TYPE_CHECKING:
    from .step import Rest, Step

_ANSWERS = (
    ((UpdateSession,), (SessionUpdated,)),
    ((DeleteItem,), (ItemDeleted,)),
    ((RetrieveItem,), (ItemRetrieved,)),
    ((TruncateItem, AckPlayback), (PlaybackAcknowledged,)),
    ((TruncateItem,), (ItemTruncated,)),
    ((Heartbeat,), (SessionHeartbeatAck,)),
    ((SignalTurn,), (TurnEvent,)),
    ((ClearInput, CancelInput, BargeIn), (InputCleared,)),
)
"""Commands, and the one event that tells each that it was carried out."""


_INTERRUPT = frozenset({inputs.CommandReceived, inputs.AudioDecoded})


@law(117, "step", EpochMoved)
def a_cancel_waits_for_nothing(step: Step) -> bool:
    """The response it stops has its ending in the same step, whatever hangs."""
    stopped = step.before.response
    if type(step.item) not in _INTERRUPT or stopped is None or step.state.overflowed:
        return False
    ended = {event.response_id for event in step.tells(ResponseDone)}
    assert stopped in ended, f"{stopped} has no ending yet"
    item_op = getattr(step.item, "op", None)
    return any(op != item_op for op in step.life.working)


@law(118, "step", inputs.TimerFired)
def a_close_waits_so_long_and_no_longer(step: Step) -> bool:
    """For a cleanup that hangs, or for a unit that the stage never takes."""
    began = step.life.closing_at
    if began is None or step.before.phase == "closed":
        return False
    if step.state.now < began + step.state.limits.close_timeout_s:
        return False
    assert step.after.phase == "closed", "the end waits on"
    return True


@law(118, "rest")
def a_close_has_its_end(rest: Rest) -> bool:
    """Once it began, its client was told."""
    if rest.life.closing_at is None:
        return False
    assert rest.life.terminals == 1, "a session that began to end was not ended"
    return any(isinstance(each, effects.ReleaseStages) for each in rest.life.working.values())


@law(120, "rest")
def every_command_is_answered(rest: Rest) -> bool:
    """Carried out or refused; only the end of the session discards one."""
    assert rest.session.waiting_commands == 0, "a command still waits"
    if not rest.life.counts or not rest.state.open or rest.life.retold:
        return False
    life = rest.life
    counts, news = life.counts, life.news
    refused = [type(life.commands[name]) for name in life.refused if name in life.commands]
    for commands, events in _ANSWERS:
        asked = told = said_no = 0
        for command in commands:
            asked += counts.get(command, 0)
            said_no += refused.count(command)
        for event in events:
            told += news.get(event, 0)
        assert asked == told + said_no, (
            f"{_names(commands)}: {asked} asked, {told} told, {said_no} refused"
        )
    return True


def _names(commands: tuple[type[Any], ...]) -> str:
    return ", ".join(each.__name__ for each in commands)
