"""What must hold of a session after every step, whatever it was asked: each law is a function.

A law gets a ``Step``: the session before and after one input, and what it asked for. A law that is
broken raises ``AssertionError``. ``SessionWatch`` holds them all against a running ``SessionLab``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import (
    AckPlayback,
    BargeIn,
    CancelInput,
    CancelResponse,
    ErrorEvent,
    ResponseDone,
    SessionClosed,
    TruncateItem,
)
from duplex_sdk.session import effects, inputs

from .observed_step import Life, Snapshot, Step

if TYPE_CHECKING:
    from .session_lab import SessionLab

__all__ = ["STEP_LAWS", "SessionWatch", "Snapshot", "Step"]

DROPPING = {"commit_aborted", "text_only_turn_unsupported"}
"""Errors that end something besides refusing their command."""


# identity and epochs


def epoch_grows_by_one(step: Step) -> None:
    """1: an interruption is one epoch."""
    grown = step.after.epoch - step.before.epoch
    assert grown in (0, 1), f"the epoch moved by {grown}"


def turns_never_go_back(step: Step) -> None:
    """2: the identity of the model's turn."""
    assert step.after.turn_id >= step.before.turn_id


def the_fence_is_monotonic(step: Step) -> None:
    """3: what is accepted of stage work."""
    assert step.after.fence >= step.before.fence


def events_carry_the_epoch_they_were_told_in(step: Step) -> None:
    """6: and in 5, nothing of an old epoch follows the step that ended it."""
    epoch = step.before.epoch
    again = step.item.events if isinstance(step.item, inputs.OutputRefused) else ()
    for event in step.events:
        if event.epoch is None or event in again:
            continue
        assert epoch <= event.epoch <= step.after.epoch, f"{event.type} has epoch {event.epoch}"
        epoch = event.epoch


def stale_output_changes_nothing(step: Step) -> None:
    """7: an output of another epoch."""
    item = step.item
    if isinstance(item, inputs.StageOutputReceived) and item.output.epoch != step.before.epoch:
        assert not step.events
        assert step.after == step.before


# refusals


def a_refused_command_leaves_no_trace(step: Step) -> None:
    """11, 54: what is refused at once, with nothing else to do in the step."""
    command = step.command
    if command is None or command.event_id is None or not step.still:
        return
    refused = [
        event
        for event in step.events
        if isinstance(event, ErrorEvent) and event.error.event_id == command.event_id
    ]
    if refused and len(step.events) == 1 and refused[0].error.code not in DROPPING:
        assert step.after == step.before, f"{refused[0].error.code} changed the session"


def a_command_is_refused_once(step: Step) -> None:
    """12: one error at most for each command."""
    for event in step.events:
        if isinstance(event, ErrorEvent) and event.error.event_id is not None:
            # One that found no room is told again as it was.
            first = step.life.errors.setdefault(event.error.event_id, event.event_id)
            assert first == event.event_id, f"{event.error.event_id} was refused twice"


# input


def input_stays_within_its_limit(step: Step) -> None:
    """18: reserved bytes."""
    assert 0 <= step.after.input_bytes <= step.state.input_bytes.limit


def every_buffered_byte_is_counted(step: Step) -> None:
    """19, at all times: no more lies in the buffer than is reserved."""
    assert step.after.buffered_bytes <= step.after.input_bytes


def an_interruption_of_input_drops_it(step: Step) -> None:
    """57: ``barge_in`` and ``input.cancel``."""
    taken = type(step.command) in (BargeIn, CancelInput) and step.before.phase == "open"
    if taken and step.after.epoch > step.before.epoch:
        assert step.after.buffered_bytes == 0
        assert step.after.retained == 0
        assert step.after.pending_turns == 0


def a_cancel_keeps_open_input(step: Step) -> None:
    """57: ``response.cancel``."""
    if isinstance(step.command, CancelResponse) and step.still:
        assert step.after.input_bytes >= step.before.buffered_bytes, "open input was dropped"


# units

_STAGE_WORK = frozenset({effects.PlanAppend, effects.SubmitUnit, effects.DecodeAudio})


def units_are_numbered_without_gaps(step: Step) -> None:
    """29, 31, 32, 33: order of what the stage is given."""
    life, item = step.life, step.item
    if isinstance(item, inputs.UnitSubmitted):
        epoch, number = life.submits.pop(item.op, (None, 0))
        if item.fault is None and epoch == step.before.epoch and step.before.phase == "open":
            assert epoch is not None
            expected = life.accepted.get(epoch, 0) + 1
            assert number == expected, f"unit {number} was accepted, expected {expected}"
            life.accepted[epoch] = number
            life.bound[life.requests[item.op]] = epoch
    for effect in step.asked:
        if isinstance(effect, effects.SubmitUnit):
            fence = effect.submission.context.fence
            assert fence.epoch == step.after.epoch, "a unit of an ended epoch was submitted"
            life.submits[effect.op] = (fence.epoch, effect.submission.seq)
            life.late[effect.op] = fence.epoch
            life.requests[effect.op] = effect.submission.context.request_id
    current = [op for op, (epoch, _) in life.submits.items() if epoch == step.after.epoch]
    assert len(current) <= 1, "two units are under way"


def units_are_whole(step: Step) -> None:
    """27: where input is streamed each unit is as long as the model's, filled up if need be."""
    state = step.state
    period_ms = state.capabilities.chunk_period_ms
    if not period_ms or not (state.auto_responds or state.early_input):
        return
    for effect in step.asked:
        if type(effect) is effects.SubmitUnit:
            prompt = effect.submission.prompt
            if prompt.kind == "audio" and prompt.audio is not None:
                length_ms = prompt.audio.duration_ms
                assert length_ms == period_ms, f"a unit is {length_ms} ms long"


def a_late_unit_is_called_back(step: Step) -> None:
    """53: a unit that the stage took after its epoch was over."""
    item = step.item
    if not isinstance(item, inputs.UnitSubmitted) or item.fault is not None:
        return
    epoch = step.life.late.pop(item.op, None)
    if epoch is not None and epoch < step.before.epoch and step.before.phase == "open":
        request = step.life.requests[item.op]
        aborted = [e for e in step.asked if isinstance(e, effects.AbortRequests)]
        assert any(request in e.request_ids for e in aborted), f"{request} was taken and goes on"


def a_request_is_new_until_a_unit_of_it_was_taken(step: Step) -> None:
    """36: ``already_submitted``."""
    for effect in step.asked:
        if isinstance(effect, effects.SubmitUnit):
            submission = effect.submission
            known = submission.context.request_id in step.life.bound
            assert submission.already_submitted == known


def nothing_is_submitted_after_the_end_began(step: Step) -> None:
    """88: a closing session asks nothing more of its stages."""
    if step.before.phase != "open":
        assert not any(type(effect) in _STAGE_WORK for effect in step.asked)


# responses


def responses_are_told_in_order(step: Step) -> None:
    """40 to 44: begin, parts, deltas, closings, end, each once."""
    life = step.life
    if isinstance(step.item, inputs.OutputRefused):
        life.take_back(step.item.events)
    for event in step.events:
        life.told.append(event)
        life.traces.tell(event, overflowed=step.state.overflowed)


def at_most_one_response_is_open(step: Step) -> None:
    """39, 47: and the session and its client agree which."""
    told = step.life.traces.open_ids
    active = step.state.response
    if not step.state.overflowed:
        assert told == (() if active is None else (active.id,)), f"{told} are open"


def a_broken_off_response_promotes_nothing(step: Step) -> None:
    """59: after a cancelled or failed ending the user's next turn is not answered by itself."""
    ends = [e for e in step.events if isinstance(e, ResponseDone)]
    if ends and ends[-1].response.status in ("cancelled", "failed") and step.still:
        assert step.state.response is None
        assert not step.state.turn_input.answer_deferred


# cancel


def no_request_of_an_old_epoch_is_active(step: Step) -> None:
    """52: what outputs may come from."""
    active = step.state.requests.active_id
    if active is not None:
        assert step.life.bound.get(active) == step.after.epoch


def old_requests_are_stopped(step: Step) -> None:
    """53: every request of an ended epoch is aborted, or released with the session."""
    for effect in step.asked:
        if isinstance(effect, effects.AbortRequests | effects.ReleaseRequests):
            step.life.stopped.update(effect.request_ids)
        elif isinstance(effect, effects.ReleaseStages):
            step.life.stopped.update((*effect.submitted, *effect.reserved))
    for request_id, epoch in step.life.bound.items():
        if epoch < step.after.epoch:
            assert request_id in step.life.stopped, f"{request_id} goes on"


# playback


def playback_moves_as_the_client_says(step: Step) -> None:
    """62, 63, 64: positions, and whose they are."""
    truncates = isinstance(step.command, TruncateItem) or (
        isinstance(step.command, AckPlayback) and step.command.truncate
    )
    if step.after.cursors == step.before.cursors:
        return
    moved = 0
    for name, (played, committed, audio) in step.after.cursors.items():
        assert 0 <= committed <= audio + 1, f"{committed} ms of {audio} ms were heard"
        old = step.before.cursors.get(name)
        if old is None:
            continue
        assert played >= old[0], "played_ms went back"
        assert committed >= old[1] or truncates or not step.still, "committed_ms went back"
        moved += (played, committed) != old[:2]
    if isinstance(step.command, AckPlayback):
        assert moved <= 1, "an acknowledgement moved two responses"


# life


def the_lease_moves_only_with_resume_and_end(step: Step) -> None:
    """74: the generation."""
    grown = step.after.generation - step.before.generation
    allowed = isinstance(step.item, inputs.LeaseResumed) or (
        step.before.phase == "open" != step.after.phase
    )
    assert grown == 0 or (grown == 1 and allowed)


def idle_expiry_waits_for_work(step: Step) -> None:
    """79: a session whose unit is under way is not idle."""
    for effect in step.asked:
        if type(effect) is effects.MarkClosing and effect.reason == "idle_ttl_expired":
            assert not step.before.operations, "a session expired over its work"


def the_terminal_is_one_and_last(step: Step) -> None:
    """80, 81, 82: the end of the stream."""
    for event in step.events:
        assert step.life.terminals == 0, f"{event.type} follows the end of the session"
        step.life.terminals += isinstance(event, SessionClosed)
    assert (step.life.terminals == 1) == (step.after.phase == "closed")


STEP_LAWS: tuple[Callable[[Step], None], ...] = (
    epoch_grows_by_one,
    turns_never_go_back,
    the_fence_is_monotonic,
    events_carry_the_epoch_they_were_told_in,
    stale_output_changes_nothing,
    a_refused_command_leaves_no_trace,
    a_command_is_refused_once,
    input_stays_within_its_limit,
    every_buffered_byte_is_counted,
    an_interruption_of_input_drops_it,
    a_cancel_keeps_open_input,
    units_are_numbered_without_gaps,
    units_are_whole,
    a_late_unit_is_called_back,
    a_request_is_new_until_a_unit_of_it_was_taken,
    nothing_is_submitted_after_the_end_began,
    responses_are_told_in_order,
    at_most_one_response_is_open,
    a_broken_off_response_promotes_nothing,
    no_request_of_an_old_epoch_is_active,
    old_requests_are_stopped,
    playback_moves_as_the_client_says,
    the_lease_moves_only_with_resume_and_end,
    idle_expiry_waits_for_work,
    the_terminal_is_one_and_last,
)


class SessionWatch:
    """Holds the laws against every step of a lab's session from now on.

    Args:
        lab: the session on the bench; it must have asked for nothing yet but its opening.

    Attributes:
        broken: a law was broken; nothing can be said of the session any more.
    """

    def __init__(self, lab: SessionLab) -> None:
        self._lab = lab
        self._life = Life()
        self._before = Snapshot.of(lab.session.state)
        self._still = True
        self.broken = False
        lab.watch = self.stepped

    def stepped(self, item: inputs.Input, asked: tuple[effects.Effect, ...]) -> None:
        """One ``handle`` is over.

        Raises:
            AssertionError: a law is broken; the message names it.
        """
        session = self._lab.session
        after = Snapshot.of(session.state)
        step = Step(item, asked, self._before, after, self._still, session.state, self._life)
        for law in STEP_LAWS:
            try:
                law(step)
            except AssertionError as error:
                self.broken = True
                told = [event.type for event in step.events]
                raise AssertionError(
                    f"{law.__name__}: {error}\nin {str(item)[:400]}\ntold {told}"
                ) from error
        for effect in asked:
            broke = isinstance(effect, effects.Report) and effect.level == "error"
            assert not broke, f"nothing_breaks_inside: {effect}"
        self._before = after
        self._still = session.waiting_commands == 0 and not session.moving_input_bytes

    def at_rest(self) -> None:
        """Nothing is under way and the client is silent: the ledgers add up.

        Raises:
            AssertionError: they do not.
        """
        state = self._lab.session.state
        turn = state.turn_input
        kept = sum(each.held.amount for each in (*turn.retained, *turn.early))
        buffered = state.model_state.audio_buffer.pending_byte_count
        preroll = self._lab.session.preroll_bytes
        assert state.input_bytes.total == kept + buffered + preroll, "19: bytes are lost or leak"
        assert self._lab.session.waiting_commands == 0, "a command still waits"
        assert state.pending_turns.total == 0, "21: a turn is still pending"
        queue = self._lab.queue
        assert not self._lab.reading or not queue.pending_bytes, "93: an empty queue holds bytes"
        assert all(
            message.get("content") or message.get("tool_calls") or message.get("tool_call_id")
            for message in state.history.messages()
        ), "70: an empty place shows"
        assert not state.lease.active_operations, "38: a lease operation is still active"
        overflowed = state.overflowed
        assert overflowed or not self.open_responses, "49: a response hangs"
        if state.phase.value != "open":
            assert state.input_bytes.total == 0, "20: a closed session holds bytes"

    @property
    def open_responses(self) -> tuple[str, ...]:
        """Responses that were begun and not ended."""
        return self._life.traces.open_ids
