"""Laws 39 to 51: responses begin once, are told in order, and end once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import (
    AudioDelta,
    AudioDone,
    ContentPartAdded,
    ContentPartDone,
    FunctionCallArgumentsDelta,
    FunctionCallArgumentsDone,
    ItemAdded,
    ItemDone,
    OutputItemAdded,
    OutputItemDone,
    ResponseCreated,
    ResponseDone,
    Speak,
    TextDelta,
    TextDone,
    TranscriptDelta,
    TranscriptDone,
)
from duplex_sdk.session import effects, inputs

from .law import law
from .moved import ResponseMoved
from .response_trace import ORDER, RANK
from .signs import OfATurnThatIsOver, QuietUnit

if TYPE_CHECKING:
    from duplex_sdk.plugin import AppendPiece

    from .response_trace import Told
    from .step import Rest, Step

_AUTO_UNITS, _TURN_UNITS = 64, 8
_ROUNDING_S = 1e-6
_OF_RESPONSES = (
    AudioDelta,
    AudioDone,
    ContentPartAdded,
    ContentPartDone,
    FunctionCallArgumentsDelta,
    FunctionCallArgumentsDone,
    ItemAdded,
    ItemDone,
    OutputItemAdded,
    OutputItemDone,
    Speak,
    TextDelta,
    TextDone,
    TranscriptDelta,
    TranscriptDone,
)
_REPEATED = RANK["response.output_audio.delta"]
_PAIRS = (
    ("response.output_item.added", "response.output_item.done"),
    ("conversation.item.added", "conversation.item.done"),
    ("response.content_part.added", "response.content_part.done"),
)


@law(39, "step", ResponseMoved, ResponseCreated, ResponseDone, inputs.OutputRefused)
def at_most_one_response_is_open(step: Step) -> bool:
    """And the session and its client agree which."""
    told = step.life.traces.open_ids
    active = step.state.response
    if step.state.overflowed or (step.life.retold and step.after.phase != "open"):
        return False
    # Those outside the conversation run beside it.
    open_ids = {*step.state.beside} | (set() if active is None else {active.id})
    assert {*told} == open_ids, f"{told} are open"
    requests = step.state.requests
    for each in step.state.beside.values():
        draining = each.in_conversation
        assert not draining or requests.is_submitted(each.request_id), f"{each.id} drains nothing"
    return active is not None


@law(40, "step", ResponseDone)
def a_response_ends_before_its_session(step: Step) -> bool:
    """Nothing is ended after the terminal event of the session."""
    assert step.before.phase != "closed", "a response ends in a session that is over"
    return True


@law(40, "rest")
def every_response_has_ended(rest: Rest) -> bool:
    """Each that was begun, unless its ending found no room."""
    left = set(rest.life.traces.open_ids)
    if left and not rest.state.overflowed:
        # One that was refused is tried once more, in the room that is kept for it.
        left -= {name for name, times in rest.life.endings_refused.items() if times > 1}
        assert not left, f"{left} never ended"
    return bool(rest.life.news[ResponseCreated])


@law(41, "told", ResponseDone)
def nothing_ends_that_was_not_begun(told: Told) -> bool:
    """An ending names a response that its client knows."""
    assert told.trace.seen[:1] == ["response.created"], "an unknown response ends"
    return True


@law(42, "told", ResponseCreated, ResponseDone, *_OF_RESPONSES)
def nothing_follows_the_end_of_a_response(told: Told) -> bool:
    """Neither a second ending nor anything else of it."""
    assert told.trace.status is None, f"{told.event.type} follows the end of its response"
    return type(told.event) is ResponseDone


@law(43, "told", ResponseCreated, ResponseDone, *_OF_RESPONSES)
def a_response_is_told_in_order(told: Told) -> bool:
    """Begin, item, part, deltas, closings, end: each once but the deltas."""
    event, trace = told.event, told.trace
    rank = RANK[event.type]
    again = rank == trace.rank == _REPEATED
    assert rank > trace.rank or again, f"{event.type} follows {ORDER[trace.rank]}"
    assert trace.seen or type(event) is ResponseCreated, f"{event.type} opens a response"
    if type(event) is ResponseDone and not trace.overflowed:
        for opening, closing in _PAIRS:
            both = (opening in trace.seen, closing in trace.seen)
            assert both[0] == both[1], f"{opening} without {closing}, or the other way round"
    return True


@law(44, "told", TranscriptDone, TextDone, FunctionCallArgumentsDone)
def a_text_is_what_its_deltas_said(told: Told) -> bool:
    """Joined, they are the text that closes them."""
    event = told.event
    if isinstance(event, TranscriptDone):
        said = event.transcript
    elif isinstance(event, TextDone):
        said = event.text
    else:
        assert isinstance(event, FunctionCallArgumentsDone)
        said = event.arguments
    assert said == told.trace.text, f"{said!r} is not {told.trace.text!r}"
    return bool(said)


@law(45, "step", ResponseDone)
def a_response_without_its_input_is_not_completed(step: Step) -> bool:
    """One that was opened for a unit which the stage never took fails or is cancelled."""
    looked = False
    for event in step.tells(ResponseDone):
        trace = step.life.traces.known(event.response_id)
        if trace is None or not trace.bound:
            continue
        taken = step.life.taken + (step.after.seq > step.before.seq)
        if taken == trace.accepted_before:
            looked = True
            status = event.response.status
            assert status in ("failed", "cancelled"), f"it is {status}"
    return looked


@law(46, "step", OfATurnThatIsOver)
def a_turn_that_is_over_opens_nothing(step: Step) -> bool:
    """In turn mode: late output of it begins no response."""
    item = step.item
    assert isinstance(item, inputs.StageOutputReceived)
    stale = item.output.epoch != step.before.epoch
    if stale or step.before.response is not None or step.state.auto_responds:
        return False
    assert not step.tells(ResponseCreated), "late output opens a response"
    return True


@law(47, "step", ResponseCreated)
def no_response_begins_beside_another(step: Step) -> bool:
    """Of the messages of the conversation: calls and what is said aside do not count."""
    open_id = step.before.response
    for event in step.tells(ResponseCreated, ResponseDone):
        trace = step.life.traces.known(event.response_id)
        if trace is None or trace.calls or not trace.in_conversation:
            continue
        if type(event) is ResponseDone:
            open_id = None if event.response_id == open_id else open_id
        else:
            # One whose model could begin the next turn drains beside it.
            drains = open_id in step.state.beside
            assert open_id is None or drains or step.state.overflowed, f"{open_id} is still open"
            open_id = event.response_id
    return True


@law(48, "step", inputs.UnitSubmitted)
def a_response_is_kept_alive_so_long(step: Step) -> bool:
    """By so many silent units and no more."""
    item, response = step.item, step.before.response
    assert isinstance(item, inputs.UnitSubmitted)
    taken = step.after.seq > step.before.seq and not step.cancels
    planned = step.life.planned
    if not taken or response is None or planned is None or not is_silence(planned.unit):
        return False
    life = step.life
    life.silences[response] += 1
    most = _AUTO_UNITS if step.state.auto_responds else _TURN_UNITS
    assert life.silences[response] <= most, f"{life.silences[response]} silent units"
    return life.silences[response] == most


@law(49, "rest")
def no_response_hangs(rest: Rest) -> bool:
    """Left alone, an open response has come to its end."""
    left = rest.state.response
    assert left is None or not rest.state.open, f"{left.id} waits for nothing"
    return bool(rest.life.news[ResponseCreated])


@law(50, "step", QuietUnit)
def silence_waits_for_real_input(step: Step) -> bool:
    """One silent unit at most is pending, and none while sound waits that streams on."""
    silent = [effect for effect in step.asks(effects.PlanAppend) if is_silence(effect.request.unit)]
    if not silent:
        return False
    pending = sum(is_silence(unit) for unit in step.after.units)
    assert pending <= 1, f"{pending} silent units are pending"
    if step.state.auto_responds:
        assert not step.after.buffered_bytes, "sound waits behind silence"
    return True


@law(51, "step", QuietUnit)
def silence_does_not_come_in_a_burst(step: Step) -> bool:
    """Silent units are a period apart, but for one that makes up for lost time."""
    silent = [effect for effect in step.asks(effects.PlanAppend) if is_silence(effect.request.unit)]
    if not silent:
        return False
    times = step.life.silent_at
    times.append(step.state.now)
    period_s = (step.state.capabilities.chunk_period_ms or 1000) / 1000
    if len(times) < 3:
        return False
    passed = times[-1] - times[-3]
    assert passed >= period_s - _ROUNDING_S, f"three silent units within {passed:.3f} s"
    return True


def is_silence(unit: AppendPiece) -> bool:
    """Whether a unit was made up to keep a model going."""
    if unit.kind != "audio" or unit.audio is None or unit.final or unit.is_speech is not False:
        return False
    data = unit.audio.data
    return data.count(0) == len(data)
