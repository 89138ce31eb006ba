"""Laws 106 to 116: what stages, plugins and function calls may do to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.plugin import OutputInterpreter
from duplex_sdk.protocol.duplex import AppendAudio, ItemAdded
from duplex_sdk.session import inputs
from duplex_sdk.session.playback import RETAINED_RESPONSES

from .law import law
from .moved import EpochMoved
from .signs import OutputFailed, OutputOnItsWay
from .tool_life import answered_in

if TYPE_CHECKING:
    from .step import Rest, Step


@law(111, "step", OutputFailed)
def a_failed_response_ends_no_session(step: Step) -> bool:
    """What a stage says of one response or event ends no more than that."""
    assert step.after.phase == step.before.phase, "the session ended with it"
    return step.before.phase == "open"


@law(112, "step", ItemAdded)
def a_call_is_answered_once(step: Step) -> bool:
    """And never when its item was deleted before."""
    if type(step.item) is inputs.OutputRefused:
        return False
    looked = False
    for event in step.tells(ItemAdded):
        if event.item.type == "function_call_output":
            call, tools = str(event.item.call_id), step.life.tools
            assert call not in tools.answered, f"{call} was answered before"
            assert call not in tools.deleted, f"{call} was deleted before"
            looked = True
    return looked


@law(113, "step", EpochMoved)
def an_interruption_leaves_finished_calls_open(step: Step) -> bool:
    """Their results are welcome in any later epoch."""
    if not step.cancels:
        return False
    # A result that waited behind what was interrupted may be taken at once.
    calls = step.life.tools.open - answered_in(step.events)
    for call in calls:
        known = step.state.tools.get(call)
        assert known is not None, f"{call} is forgotten"
        assert known.status == "open", f"{call} is {known.status}"
    return bool(calls)


@law(113, "step", AppendAudio)
def calls_never_hold_up_sound(step: Step) -> bool:
    """However many of them are open."""
    if not step.life.tools.finished or not step.life.tools.open or step.before.phase != "open":
        return False
    refused = {code for code in step.refusals.values() if "function" in code or "tool" in code}
    assert not refused, f"{refused}"
    return True


@law(114, "rest")
def ledgers_stay_within_their_bounds(rest: Rest) -> bool:
    """Whatever the client did."""
    state = rest.state
    open_ones = len(state.beside) + (state.response is not None)
    cursors = len([*state.playback.cursors()])
    assert cursors <= RETAINED_RESPONSES + open_ones + 1, f"{cursors} positions"
    assert state.input_bytes.total <= state.input_bytes.limit
    assert len(state.stage_metrics) <= len(state.pipeline.stages)
    return cursors > 0


@law(115, "rest")
def capabilities_never_change(rest: Rest) -> bool:
    """Whoever asks for them, and whatever has happened."""
    state = rest.state
    if rest.life.taken % 8 != 1:
        # To ask costs much; one session in some is enough, in which something happened.
        return False
    assert state.plugin.capabilities(max_sessions=1) == state.capabilities
    return True


@law(115, "step", OutputOnItsWay)
def decisions_are_pure(step: Step) -> bool:
    """The same output in the same place is decided the same, and nothing comes of being asked."""
    item, plugin = step.item, step.state.plugin
    if type(plugin).decide_output is OutputInterpreter.decide_output:
        return False
    if type(item) is not inputs.StageOutputReceived or item.is_last:
        return False
    context = step.session.output_context(item.stage_id)
    first, second = (plugin.decide_output(item.output, context) for _ in range(2))
    assert first == second, f"{first}, then {second}"
    return True
