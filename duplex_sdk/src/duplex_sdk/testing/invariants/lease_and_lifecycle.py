"""Laws 74 to 91: leases, and how sessions begin and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import SessionClosed, SessionExpired
from duplex_sdk.session import effects, inputs
from duplex_sdk.session.session_table import SlotState
from duplex_sdk.session.table_messages import (
    AnswerCaller,
    CleanupTried,
    ForgetSession,
    PrepareSession,
    SessionEnded,
)

from .law import law
from .moved import Ending, LeaseMoved, PhaseMoved
from .table_step import CloseAnswered, OpenAnswered, ResumeAnswered

if TYPE_CHECKING:
    from .step import Step
    from .table_step import TableEnd, TableStep

_TERMINALS = frozenset({SessionClosed, SessionExpired})
_STAGE_WORK = frozenset({effects.PlanAppend, effects.SubmitUnit, effects.DecodeAudio})


# of a session


@law(74, "step", LeaseMoved)
def the_lease_moves_only_with_resume_and_end(step: Step) -> bool:
    """The generation grows by one with each."""
    grown = step.after.generation - step.before.generation
    allowed = isinstance(step.item, inputs.LeaseResumed) or (
        step.before.phase == "open" != step.after.phase
    )
    assert grown == 0 or (grown == 1 and allowed), f"the generation moved by {grown}"
    return grown == 1


@law(77, "step", inputs.LeaseDetached)
def a_stale_detach_changes_nothing(step: Step) -> bool:
    """It speaks of a connection that was replaced."""
    item = step.item
    if type(item) is not inputs.LeaseDetached or step.before.phase != "open":
        return False
    if item.expected_generation == step.before.generation:
        return False
    assert step.after == step.before, "a stale detach changed the session"
    assert all(answer.fault is not None for answer in step.asks(effects.AnswerControl))
    return True


@law(78, "step", inputs.LeaseResumed)
def a_resume_ends_the_grace(step: Step) -> bool:
    """The detach before it is forgotten."""
    grown = step.after.generation > step.before.generation
    if not grown or step.after.phase != "open":
        return False
    assert step.after.detached_at is None, "the grace goes on"
    return step.before.detached_at is not None


@law(78, "step", effects.MarkClosing)
def only_a_detached_session_runs_out_of_grace(step: Step) -> bool:
    """And only when the whole of it has gone by since the newest detach."""
    for effect in step.asks(effects.MarkClosing):
        if effect.reason == "disconnect_grace_expired":
            since = step.before.detached_at
            assert since is not None, "it has a connection"
            assert step.state.now >= since + step.state.limits.disconnect_grace_s, "too early"
            return True
    return False


@law(79, "step", effects.MarkClosing)
def idle_expiry_waits_for_work(step: Step) -> bool:
    """A session whose unit is under way is not idle."""
    for effect in step.asks(effects.MarkClosing):
        if effect.reason == "idle_ttl_expired":
            assert not step.before.operations, "a session expired over its work"
            return True
    return False


@law(80, "step", PhaseMoved, SessionClosed, SessionExpired)
def the_terminal_comes_with_the_end(step: Step) -> bool:
    """A session is over exactly when its client was told so."""
    over = step.after.phase == "closed"
    assert (step.life.terminals == 1) == over, f"{step.life.terminals} ends, {step.after.phase}"
    return over


@law(81, "step", SessionClosed, SessionExpired, Ending)
def nothing_follows_the_end_of_a_session(step: Step) -> bool:
    """The terminal event is the last."""
    ended = step.before.phase == "closed"
    for event in step.events:
        assert not ended, f"{event.type} follows the end of the session"
        ended = type(event) in _TERMINALS
    return ended


@law(88, "step", Ending)
def nothing_is_submitted_after_the_end_began(step: Step) -> bool:
    """A closing session asks nothing more of its stages, and no ledger of it grows."""
    if step.before.phase == "open":
        return False
    assert _STAGE_WORK.isdisjoint(step.kinds), "it goes on"
    assert step.after.input_bytes <= step.before.input_bytes
    assert len(step.after.items) <= len(step.before.items)
    assert len(step.after.messages) <= len(step.before.messages)
    return True


# of the table


@law(74, "table", AnswerCaller)
def generations_never_go_back(step: TableStep) -> bool:
    """As callers see them."""
    looked = False
    for effect in step.asks(AnswerCaller):
        if effect.generation is None or effect.fault is not None or effect.operation == "close":
            continue
        known = step.life.generations.get(effect.session_id, 0)
        assert effect.generation >= known, f"{effect.generation} after {known}"
        step.life.generations[effect.session_id] = effect.generation
        looked = True
    return looked


@law(75, "table", ResumeAnswered)
def one_resume_of_a_generation_wins(step: TableStep) -> bool:
    """Of those that expect the same one; it makes the next."""
    looked = False
    for effect in step.asks(AnswerCaller):
        if effect.operation != "resume" or effect.fault is not None:
            continue
        expected = step.life.expected[effect.control_id]
        assert effect.generation == expected + 1, f"{expected} made it {effect.generation}"
        key = (effect.session_id, effect.generation)
        winner = step.life.resumed.setdefault(key, effect.control_id)
        assert winner == effect.control_id, f"{winner} and {effect.control_id} did"
        looked = True
    return looked


@law(76, "table", ResumeAnswered)
def a_resume_asked_again_is_the_same(step: TableStep) -> bool:
    """Its own control id is answered what it was answered before."""
    looked = False
    for effect in step.asks(AnswerCaller):
        if effect.operation == "resume" and effect.control_id in step.life.resumed.values():
            conflict = effect.fault is not None and effect.fault.code == "session_resume_conflict"
            assert not conflict, "it was refused"
            looked = looked or effect.control_id in step.life.repeated
    return looked


@law(82, "table", CloseAnswered)
def closing_is_never_refused(step: TableStep) -> bool:
    """However often it is asked for, and of whatever session."""
    closes = [each for each in step.asks(AnswerCaller) if each.operation == "close"]
    for effect in closes:
        assert effect.fault is None, f"{effect.fault}"
    return bool(closes)


@law(83, "table", PrepareSession, SessionEnded, CleanupTried)
def slots_stay_within_their_number(step: TableStep) -> bool:
    """Admitted, living and ending sessions together, whenever one joins or may leave them."""
    slots = step.table.counts().slots
    assert slots <= step.table.max_sessions, f"{slots} of {step.table.max_sessions}"
    return slots == step.table.max_sessions


@law(84, "table", ForgetSession)
def a_slot_is_freed_after_its_cleanup(step: TableStep) -> bool:
    """And never while the stages may still hold something."""
    for effect in step.asks(ForgetSession):
        started = effect.session_id in step.life.started
        cleaned = effect.session_id in step.life.cleaned
        assert not started or cleaned, f"{effect.session_id} was not cleaned up"
    return True


@law(85, "table", OpenAnswered)
def a_refused_open_leaves_nothing(step: TableStep) -> bool:
    """Neither a session nor a slot."""
    looked = False
    for effect in step.asks(AnswerCaller):
        if effect.operation == "open" and effect.fault is not None:
            known = step.table.state(effect.session_id)
            exists = effect.fault.code == "session_exists"
            assert exists or known is SlotState.ABSENT, f"{effect.session_id} is {known}"
            looked = True
    return looked


@law(87, "end")
def nothing_is_left(end: TableEnd) -> bool:
    """No session, no operation, no waiting caller."""
    assert end.table.empty, "a session holds its slot"
    waiting = sorted(name for name, times in end.life.asked.items() if times)
    assert not waiting, f"{waiting} were never answered"
    return True


@law(89, "table", AnswerCaller)
def operations_are_answered_once_and_in_order(step: TableStep) -> bool:
    """Those of one session."""
    looked = False
    for effect in step.asks(AnswerCaller):
        life = step.life
        assert life.asked[effect.control_id], f"{effect.control_id} was not asked"
        life.asked[effect.control_id] -= 1
        queue = life.queues.get(effect.session_id, [])
        if effect.control_id in queue:
            assert queue[0] == effect.control_id, f"{queue[0]} was overtaken"
            queue.pop(0)
            looked = looked or bool(queue)
    return looked
