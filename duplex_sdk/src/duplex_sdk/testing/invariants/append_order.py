"""Laws 29 to 38: the order in which the stage is given units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import ErrorEvent, ResponseDone
from duplex_sdk.session import effects, inputs
from duplex_sdk.session.append_sequence import StaleAppendError

from .law import law
from .moved import SequenceMoved, UnitsMoved
from .signs import Failed

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexFence

    from .step import Rest, Step


def fence_of(effect: effects.Effect) -> DuplexFence:
    """What the work on a unit is bound to."""
    if isinstance(effect, effects.PlanAppend):
        return effect.request.fence
    assert isinstance(effect, effects.SubmitUnit)
    return effect.submission.context.fence


@law(29, "step", inputs.UnitSubmitted)
def units_are_numbered_without_gaps(step: Step) -> bool:
    """Those that are taken are 1, 2, 3, ... in their epoch."""
    life, item = step.life, step.item
    if isinstance(item, inputs.UnitSubmitted) and item.fault is None:
        unit = life.units.get(item.op)
        if unit and unit.epoch == step.before.epoch and step.before.phase == "open":
            expected = life.accepted[unit.epoch] + 1
            number = unit.submission.seq
            assert number == expected, f"unit {number} was taken, expected {expected}"
            assert step.after.seq == expected, f"the session counts {step.after.seq}"
            return True
    return False


@law(30, "step", effects.PlanAppend)
def numbers_within_a_turn_start_with_it(step: Step) -> bool:
    """The first unit of an epoch or a turn is number 1 of it, each other follows the last."""
    life = step.life
    for effect in step.asks(effects.PlanAppend):
        request, last = effect.request, life.last_taken
        if step.after.seq > step.before.seq:
            # The one before it was taken in this very step.
            last = life.planned
        same = last is not None and last.fence.position == request.fence.position
        expected = last.turn_seq + 1 if same and last is not None else 1
        assert request.turn_seq == expected, f"number {request.turn_seq}, expected {expected}"
    return life.last_taken is not None


@law(31, "step", effects.PlanAppend, UnitsMoved)
def units_keep_their_order(step: Step) -> bool:
    """What was queued first reaches the stage first, except that a new epoch queues anew."""
    if step.cancels:
        return False
    under_way = step.after.units
    if step.before.units:
        now = [id(unit) for unit in under_way]
        left = [id(unit) for unit in step.before.units if id(unit) in now]
        assert left == now[: len(left)], "a unit overtook another"
    for effect in step.asks(effects.PlanAppend):
        assert effect.request.unit is under_way[0], "the first in line is not the next"
    return len(under_way) > 1


@law(32, "step", effects.SubmitUnit)
def one_unit_is_with_the_stage(step: Step) -> bool:
    """At most one of the current epoch has been handed over and not answered."""
    item = step.item
    waiting = [
        op
        for op, unit in step.life.units.items()
        if unit.epoch == step.after.epoch and op != getattr(item, "op", None)
    ]
    count = len(waiting) + len(step.asks(effects.SubmitUnit))
    assert count <= 1, f"{count} units are under way"
    return True


@law(33, "step", effects.SubmitUnit)
def nothing_is_submitted_for_an_ended_epoch(step: Step) -> bool:
    """A unit is of the epoch in which it is handed over."""
    for effect in step.asks(effects.SubmitUnit):
        epoch = effect.submission.context.fence.epoch
        assert epoch == step.after.epoch, f"a unit of epoch {epoch} in {step.after.epoch}"
    return step.after.epoch > 0


@law(34, "step", Failed)
def a_failed_unit_takes_those_behind_it_along(step: Step) -> bool:
    """None that was queued behind it goes on; what comes next starts anew.

    One outside the conversation fails alone.
    """
    item, before = step.item, step.before
    if not isinstance(item, inputs.AppendPlanned | inputs.UnitSubmitted):
        return False
    effect = step.life.working.get(item.op)
    if effect is None or before.phase != "open":
        return False
    if fence_of(effect).epoch != before.epoch or step.state.overflowed:
        return False
    if not step.tells(ErrorEvent):
        # Nobody wanted it any more: its input was cleared, or its response is over.
        return False
    alone = _was_aside(step)
    for behind in before.units[1:]:
        if behind.kind == "conversation":
            # It may be answered outside the conversation, which depends on nothing said in it.
            continue
        goes_on = any(behind is each for each in step.after.units)
        assert goes_on or not alone, "a unit fell with one that was outside the conversation"
        assert alone or not goes_on, "a unit behind it went on"
    for planned in step.asks(effects.PlanAppend):
        assert planned.request.seq == before.seq + 1, "the next one is not numbered anew"
    return True


def _was_aside(step: Step) -> bool:
    """The unit that failed was for a response outside the conversation: that fails with it."""
    traces = [step.life.traces.known(each.response_id) for each in step.tells(ResponseDone)]
    return any(trace is not None and not trace.in_conversation for trace in traces)


@law(35, "step", SequenceMoved)
def a_stale_number_cannot_be_taken(step: Step) -> bool:
    """What was prepared before another unit or epoch came is refused, and nothing changes."""
    sequence, life = step.state.sequence, step.life
    prepared, life.prepared = life.prepared, None
    if step.after.phase == "open":
        life.prepared = sequence.prepare(step.state.fence)
    if prepared is None:
        return False
    place = (sequence.accepted_fence, sequence.seq, sequence.turn_seq)
    try:
        sequence.commit(prepared)
    except StaleAppendError:
        assert place == (sequence.accepted_fence, sequence.seq, sequence.turn_seq)
        return True
    raise AssertionError(f"number {prepared.seq} of {prepared.fence} is taken late")


@law(36, "step", effects.SubmitUnit)
def a_request_is_new_until_a_unit_of_it_was_taken(step: Step) -> bool:
    """``already_submitted`` says whether the stage took one before."""
    for effect in step.asks(effects.SubmitUnit):
        submission = effect.submission
        known = submission.context.request_id in step.life.bound
        assert submission.already_submitted == known
    return True


@law(37, "step", effects.SubmitUnit)
def a_request_of_one_turn_takes_one_unit(step: Step) -> bool:
    """An ephemeral id is not used again once the stage took it."""
    looked = False
    for effect in step.asks(effects.SubmitUnit):
        submission = effect.submission
        if not submission.resumable:
            name = submission.context.request_id
            assert name not in step.life.bound, f"{name} is submitted once more"
            looked = True
    return looked


@law(38, "rest")
def no_lease_operation_is_left(rest: Rest) -> bool:
    """What held off idle expiry has ended."""
    left = sorted(rest.state.lease.active_operations)
    assert not left, f"a lease operation is still active: {left}"
    return rest.life.taken > 0
