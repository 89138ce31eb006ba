"""Laws 18 to 28: every byte of input is counted, and none is heard twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import BargeIn, CancelInput, ClearInput, InputCleared
from duplex_sdk.session import effects

from .law import law

if TYPE_CHECKING:
    from .step import Rest, Step


@law(18, "step")
def input_stays_within_its_limit(step: Step) -> bool:
    """Reserved bytes are never below nothing, nor above what the deployment allows."""
    assert 0 <= step.after.input_bytes <= step.state.input_bytes.limit
    return step.after.input_bytes > 0


@law(19, "step")
def every_buffered_byte_is_counted(step: Step) -> bool:
    """At all times: no more lies in the buffer than is reserved."""
    assert step.after.buffered_bytes <= step.after.input_bytes
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


@law(21, "step")
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
