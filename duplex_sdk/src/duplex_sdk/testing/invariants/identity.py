"""Laws 1 to 10: identity and epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.plugin import (
    DuplexFence,
    DuplexFenceMismatchError,
    belongs_to_session,
    request_epoch,
    request_session_id,
    stage_request_id,
)
from duplex_sdk.protocol.duplex import (
    AudioDelta,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearOutputAudio,
    FunctionCallArgumentsDelta,
    SessionCreated,
    SessionUpdated,
    Speak,
    TextDelta,
    TranscriptDelta,
)
from duplex_sdk.session import effects, inputs

from .law import law
from .moved import EpochMoved, FenceMoved, TurnMoved
from .signs import OfAnotherEpoch

if TYPE_CHECKING:
    from .response_trace import Told
    from .step import Step

_CANCELS = (BargeIn, CancelInput, CancelResponse, ClearOutputAudio)
_OTHER_SESSION = "anyone\u2122 \U0001f600"


@law(1, "step", EpochMoved)
def an_interruption_is_one_epoch(step: Step) -> bool:
    """The epoch grows by one with what interrupts, and with nothing else."""
    grown = step.after.epoch - step.before.epoch
    assert grown in (0, 1), f"the epoch moved by {grown}"
    if grown:
        by_command = type(step.command) in _CANCELS
        assert by_command or type(step.item) is inputs.AudioDecoded, "nothing interrupts here"
    return grown == 1


@law(2, "step", TurnMoved)
def turns_never_go_back(step: Step) -> bool:
    """Nor does the model's turn, also across interruptions."""
    assert step.after.turn_id >= step.before.turn_id, f"to turn {step.after.turn_id}"
    return step.after.turn_id > step.before.turn_id


@law(3, "step", FenceMoved)
def the_fence_is_monotonic(step: Step) -> bool:
    """And what lies behind it, or belongs to another session, is refused."""
    before, after = step.before.fence, step.after.fence
    assert after >= before, f"the fence went from {before} to {after}"
    if after == before:
        return False
    for stale in (DuplexFence(step.life.session_id, *before), DuplexFence(_OTHER_SESSION, *after)):
        try:
            step.state.sequence.prepare(stale)
        except DuplexFenceMismatchError:
            continue
        raise AssertionError(f"work under {stale} is taken at {after}")
    return True


@law(4, "step", effects.Emit, effects.SubmitUnit, effects.PlanAppend)
def all_that_is_asked_is_of_this_session(step: Step) -> bool:
    """Its fence, its events and its stage work name the session."""
    own = step.life.session_id
    assert step.state.session_id == own, f"it calls itself {step.state.session_id}"
    for event in step.events:
        assert event.session_id == own, f"{event.type} names {event.session_id}"
    for effect in step.asks(effects.SubmitUnit):
        context = effect.submission.context
        assert context.fence.session_id == context.session_id == own
    for effect in step.asks(effects.PlanAppend):
        assert effect.request.fence.session_id == step.state.fence.session_id == own
    return True


@law(5, "told", AudioDelta, FunctionCallArgumentsDelta, Speak, TextDelta, TranscriptDelta)
def nothing_of_a_cancelled_epoch_is_said(told: Told) -> bool:
    """Model output carries the epoch of its response, and that epoch was not cancelled."""
    epoch = told.event.epoch
    assert epoch == told.trace.epoch, f"{told.event.type} of {told.trace.epoch} has epoch {epoch}"
    assert epoch is not None
    assert epoch > told.cancelled_epoch, f"{told.event.type} follows the end of epoch {epoch}"
    return told.cancelled_epoch >= 0


@law(6, "step", effects.Emit)
def events_carry_the_epoch_they_were_told_in(step: Step) -> bool:
    """In program order: an interruption separates those of two epochs."""
    epoch, last = step.before.epoch, step.after.epoch
    again = step.item.events if type(step.item) is inputs.OutputRefused else ()
    for event in step.events:
        told = event.epoch
        if told is None or (again and event in again):
            continue
        assert epoch <= told <= last, f"{event.type} has epoch {told}"
        epoch = told
    return True


@law(7, "step", OfAnotherEpoch)
def stale_output_changes_nothing(step: Step) -> bool:
    """An output of another epoch asks for nothing and leaves every ledger alone."""
    # Units that grew too late meanwhile are dropped at whatever comes next.
    if step.asks(effects.TellLag):
        return False
    asked = [each for each in step.asked if type(each) is not effects.WakeAt]
    assert not asked, f"it led to {asked}"
    assert step.after == step.before, "it changed a ledger"
    return True


@law(8, "step", effects.RegisterRequest)
def request_ids_can_be_read_back(step: Step) -> bool:
    """Session, epoch and role, for whatever characters a session's id has."""
    for effect in step.asks(effects.RegisterRequest):
        name, fence = effect.context.request_id, effect.context.fence
        assert request_session_id(name) == fence.session_id
        assert belongs_to_session(name, fence.session_id)
        assert request_epoch(name) == fence.epoch
        role = name.partition(".r.")[2]
        assert stage_request_id(fence, role) == name, f"{name} is not read as it was written"
        other = stage_request_id(DuplexFence(_OTHER_SESSION, fence.epoch), role)
        assert request_session_id(other) == _OTHER_SESSION
    return bool(step.asks(effects.RegisterRequest))


@law(9, "step", effects.RegisterRequest)
def no_request_id_serves_two_epochs(step: Step) -> bool:
    """What an id says of its epoch is true for ever."""
    for effect in step.asks(effects.RegisterRequest):
        name, epoch = effect.context.request_id, effect.context.fence.epoch
        known = step.life.request_epochs.setdefault(name, epoch)
        assert known == epoch, f"{name} served epoch {known} and serves {epoch}"
    return len(set(step.life.request_epochs.values())) > 1


@law(10, "step", SessionCreated, SessionUpdated)
def a_session_keeps_the_id_it_was_given(step: Step) -> bool:
    """The server's own, whatever its client puts in its place."""
    for event in step.tells(SessionCreated, SessionUpdated):
        assert event.session["id"] == step.life.session_id, "its client gave it a name"
    prefix, _, digits = step.life.session_id.partition("-")
    assert (prefix, len(digits)) == ("duplex", 32), f"{step.life.session_id} is not the server's"
    return True
