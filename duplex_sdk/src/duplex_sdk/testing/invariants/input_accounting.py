"""Laws 18 to 28: every byte of input is counted, and none is heard twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import BargeIn, CancelInput, ClearInput, InputCleared
from duplex_sdk.session import effects, inputs

from .law import law
from .moved import BytesMoved, TurnsMoved
from .watched_buffer import WatchedBuffer

if TYPE_CHECKING:
    from .step import Rest, Step
    from .watched_buffer import BufferChange


@law(18, "step", BytesMoved)
def input_stays_within_its_limit(step: Step) -> bool:
    """Reserved bytes are never below nothing, nor above what the deployment allows."""
    assert 0 <= step.after.input_bytes <= step.state.input_bytes.limit, step.after.input_bytes
    return step.after.input_bytes > 0


@law(19, "step", BytesMoved)
def every_buffered_byte_is_counted(step: Step) -> bool:
    """At all times: no more lies in the buffer than is reserved."""
    buffered, counted = step.after.buffered_bytes, step.after.input_bytes
    assert buffered <= counted, f"{buffered} bytes lie in the buffer, {counted} are counted"
    return step.after.buffered_bytes > 0


@law(19, "rest")
def no_byte_is_counted_that_nobody_holds(rest: Rest) -> bool:
    """At rest: what is reserved lies in the buffer, the pre-roll or what a commit retained."""
    state, turn = rest.state, rest.state.turn_input
    kept = sum(each.held.amount for each in (*turn.retained, *turn.early))
    buffered = state.model_state.audio_buffer.pending_byte_count
    held = kept + buffered + rest.session.preroll_bytes
    assert state.input_bytes.total == held, f"{state.input_bytes.total} counted, {held} held"
    return held > 0


@law(20, "step", BargeIn, CancelInput, ClearInput)
def what_drops_input_frees_its_bytes(step: Step) -> bool:
    """A clear or an input cancel that finds nothing under way leaves nothing reserved."""
    if not step.still or not step.tells(InputCleared):
        return False
    assert step.after.input_bytes == 0, f"{step.after.input_bytes} bytes stay reserved"
    return step.before.input_bytes > 0


@law(20, "rest")
def a_session_that_is_over_holds_no_bytes(rest: Rest) -> bool:
    """Nor any turn that waits."""
    if rest.state.open:
        return False
    assert rest.state.input_bytes.total == 0, f"{rest.state.input_bytes.total} bytes are held"
    assert rest.state.pending_turns.total == 0, "a turn is pending"
    return True


@law(21, "step", TurnsMoved)
def pending_turns_are_the_commits_in_line(step: Step) -> bool:
    """As many turns are reserved as commits wait for their turn."""
    in_line = step.after.commits
    assert step.after.pending_turns == in_line, f"{step.after.pending_turns} for {in_line}"
    return in_line > 0


@law(22, "step", InputCleared)
def a_clear_leaves_what_came_behind_it(step: Step) -> bool:
    """One that waited in line drops no audio that was sent after it."""
    if type(step.command) in (BargeIn, CancelInput, ClearInput):
        return False
    decoded = step.life.working.get(getattr(step.item, "op", 0))
    size = len(decoded.audio) if isinstance(decoded, effects.DecodeAudio) else 0
    kept = step.before.undecoded_bytes - size
    assert step.after.undecoded_bytes >= kept, (
        f"{step.after.undecoded_bytes} of {kept} bytes wait on"
    )
    return kept > 0


@law(23, "buffer")
def a_reservation_ends_once(change: BufferChange) -> bool:
    """Committed, rolled back or cleared: one of them, and only one."""
    if change.ended is None:
        return False
    assert change.ended == 1, f"a unit was {change.kind} after it had ended"
    return True


@law(23, "rest")
def every_reservation_has_ended(rest: Rest) -> bool:
    """None is left when nothing is under way."""
    buffer = rest.state.model_state.audio_buffer
    if rest.state.open:
        assert not buffer.has_reserved(), "a unit is neither taken nor given back"
    return isinstance(buffer, WatchedBuffer)


@law(24, "buffer")
def units_hold_the_oldest_bytes(change: BufferChange) -> bool:
    """To the byte, and what was rolled back comes before all that came since."""
    waiting, expected = change.waiting
    assert waiting == expected, f"{waiting} bytes wait, {expected} should"
    if change.kind not in ("cut", "sealed"):
        return False
    assert change.seen == change.expected, "a unit holds other bytes than came first"
    return change.again


@law(25, "buffer")
def units_are_taken_in_their_order(change: BufferChange) -> bool:
    """The oldest first; to take a newer one before it is refused."""
    assert change.order is not False, "a unit was taken before an older one"
    assert change.refused is not False, "a newer unit can be taken before an older one"
    return change.refused is True


@law(26, "step", inputs.UnitSubmitted)
def no_sample_is_heard_twice(step: Step) -> bool:
    """What the stage takes in an epoch is the user's sound in its order."""
    numbers = step.life.hearing.taken_in(step)
    if numbers is None:
        return False
    rises = (numbers[1:] > numbers[:-1]).all()
    assert rises, "a unit holds a sample twice, or an older one behind a newer"
    last = step.life.hearing.last(step.before.epoch)
    assert numbers[0] > last, f"sample {numbers[0]} after {last}"
    return last >= 0


@law(28, "step", inputs.UnitSubmitted)
def what_the_policy_dropped_is_not_heard(step: Step) -> bool:
    """No sample of an append that was to be dropped reaches the stage."""
    hearing = step.life.hearing
    numbers = hearing.taken_in(step)
    if numbers is None or not hearing.dropped:
        return False
    for first, last in hearing.dropped:
        inside = (numbers >= first) & (numbers <= last)
        assert not inside.any(), f"samples {first} to {last} were dropped"
    return True


@law(28, "rest")
def what_the_policy_kept_is_not_lost(rest: Rest) -> bool:
    """Each kept sample was heard or waits, unless something dropped it that its client knows of."""
    lost = rest.life.hearing.lost(rest.state)
    if lost is None:
        return False
    assert not len(lost), f"{len(lost)} groups of samples are lost, from {lost[0]} on"
    return True


@law(27, "step", effects.SubmitUnit)
def units_are_whole(step: Step) -> bool:
    """Where input is streamed each unit is as long as the model's, filled up if need be."""
    state = step.state
    period_ms = state.capabilities.chunk_period_ms
    if not period_ms or not (state.auto_responds or state.early_input):
        return False
    for effect in step.asks(effects.SubmitUnit):
        prompt = effect.submission.prompt
        if prompt.kind == "audio" and prompt.audio is not None:
            length_ms = prompt.audio.duration_ms
            assert length_ms == period_ms, f"a unit is {length_ms} ms long"
    return True
