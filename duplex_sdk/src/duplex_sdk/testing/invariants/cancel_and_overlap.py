"""Laws 52 to 61: what an interruption stops, and what it leaves alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import (
    BargeIn,
    CancelInput,
    CancelResponse,
    DuplexRawEvent,
    ErrorEvent,
    InputCommitted,
    ResponseCreated,
    ResponseDone,
)
from duplex_sdk.session import effects, inputs

from .law import law
from .moved import EpochMoved
from .step import ends_turn

if TYPE_CHECKING:
    from .step import Step


@law(52, "step", EpochMoved, inputs.UnitSubmitted)
def no_request_of_an_old_epoch_is_active(step: Step) -> bool:
    """Outputs come from requests of the current epoch."""
    active = step.state.requests.active_id
    if active is not None:
        bound = step.life.bound.get(active, step.life.submitted_in(step.item))
        assert bound == step.after.epoch, f"{active} is bound to {bound}"
    return step.cancels


@law(53, "step", EpochMoved)
def old_requests_are_stopped(step: Step) -> bool:
    """Each under which the stage took work is aborted, or released with the session."""
    if not step.cancels:
        return False
    stopped = set(step.life.stopped)
    for effect in step.asks(effects.AbortRequests):
        stopped.update(effect.request_ids)
    looked = False
    for request_id, epoch in step.life.bound.items():
        if epoch < step.after.epoch:
            looked = True
            assert request_id in stopped, f"{request_id} goes on"
    return looked


@law(53, "step", inputs.UnitSubmitted)
def a_late_unit_is_called_back(step: Step) -> bool:
    """One that the stage took after its epoch was over."""
    item = step.item
    assert isinstance(item, inputs.UnitSubmitted)
    unit = step.life.units.get(item.op)
    if item.fault is not None or unit is None or step.before.phase != "open":
        return False
    if unit.epoch >= step.before.epoch:
        return False
    aborted = step.asks(effects.AbortRequests)
    called_back = any(unit.request_id in each.request_ids for each in aborted)
    assert called_back, f"{unit.request_id} was taken and goes on"
    return True


@law(54, "step", CancelResponse)
def a_cancel_of_nothing_changes_nothing(step: Step) -> bool:
    """It is told so, and the epoch goes on."""
    if not step.still or step.before.response is not None or step.before.phase != "open":
        return False
    if step.before.units:
        return False
    codes = list(step.refusals.values())
    assert codes == ["response_cancel_not_active"], f"it answers {codes}"
    assert not step.cancels, "the epoch ended"
    return True


@law(55, "step", ResponseDone)
def a_response_is_cancelled_once(step: Step) -> bool:
    """One cancelled ending for each response that an interruption stops."""
    endings = step.tells(ResponseDone)
    cancelled = [each.response_id for each in endings if each.response.status == "cancelled"]
    assert len(cancelled) == len(set(cancelled)), f"{cancelled}"
    if step.cancels and step.before.response is not None and not step.state.overflowed:
        ended = {event.response_id for event in endings}
        assert step.before.response in ended, "the response it stopped has no ending"
    return bool(cancelled)


@law(56, "step", inputs.RequestsAborted)
def a_cancel_stands_though_its_abort_failed(step: Step) -> bool:
    """It is told, and nothing else changes."""
    item = step.item
    assert isinstance(item, inputs.RequestsAborted)
    if item.fault is None or step.before.phase != "open":
        return False
    assert step.after == step.before, "a failed abort changed the session"
    assert all(event.error.code == "runtime_abort_failed" for event in step.tells(ErrorEvent))
    # News of units that are late, and of the session's length, may come with any step.
    told = [event for event in step.events if type(event) is not DuplexRawEvent]
    assert len(told) <= 1, f"{[event.type for event in told]} for one failed abort"
    return True


@law(57, "step", BargeIn, CancelInput)
def an_interruption_of_input_drops_it(step: Step) -> bool:
    """``barge_in`` and ``input.cancel``."""
    if step.before.phase != "open" or not step.cancels:
        return False
    assert step.after.buffered_bytes == 0
    assert step.after.retained == 0
    assert step.after.pending_turns == 0
    return step.before.input_bytes > 0


@law(57, "step", CancelResponse)
def a_cancel_keeps_open_input(step: Step) -> bool:
    """``response.cancel``."""
    if not step.still:
        return False
    assert step.after.input_bytes >= step.before.buffered_bytes, "open input was dropped"
    return step.cancels and step.before.buffered_bytes > 0


@law(58, "step", BargeIn)
def what_cannot_be_interrupted_is_not(step: Step) -> bool:
    """A barge-in on such a model changes nothing and says so."""
    if step.state.capabilities.supports_barge_in or step.before.phase != "open":
        return False
    if step.command is None or step.command.event_id not in step.refusals:
        raise AssertionError("it is not refused")
    code = step.refusals[step.command.event_id]
    assert code in ("barge_in_unsupported", "input_backpressure"), code
    assert not step.cancels, "the epoch ended"
    assert step.after == step.before or not step.still, "it changed the session"
    return True


@law(59, "step", ResponseDone)
def a_broken_off_response_promotes_nothing(step: Step) -> bool:
    """After a cancelled or failed ending the user's next turn is not answered by itself."""
    traces = step.life.traces
    ends = [
        event.response.status
        for event in step.tells(ResponseDone)
        if (trace := traces.known(event.response_id)) is not None and trace.in_conversation
    ]
    if not ends or ends[-1] == "completed" or not step.still:
        return False
    assert step.state.response is None, "a response began"
    assert not step.after.answer_deferred, "an answer is still to come"
    return True


@law(60, "step", ResponseCreated)
def a_deferred_turn_is_answered_once(step: Step) -> bool:
    """When the response it waited for is over, and while the session is open."""
    if not step.before.answer_deferred:
        return False
    assert step.after.phase == "open" or step.before.phase == "open"
    answered = set(step.before.retained_items) - set(step.after.retained_items)
    twice = answered & step.life.promoted
    assert not twice, f"{twice} was answered before"
    step.life.promoted |= answered
    return bool(answered)


@law(61, "step", InputCommitted)
def the_detector_commits_once_per_stop(step: Step) -> bool:
    """In turn mode, behind the audio that carried the stop."""
    life = step.life
    expected = life.commits_asked_for + ends_turn(step)
    told = life.news[InputCommitted] + len(step.tells(InputCommitted))
    assert told <= expected, f"{told} commits, {expected} were asked for"
    return life.stops > 0
