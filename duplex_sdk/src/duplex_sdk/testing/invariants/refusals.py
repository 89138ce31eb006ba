"""Laws 11 to 17: refusals leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from duplex_sdk.protocol.duplex import (
    CreateResponse,
    ErrorEvent,
    ResponseCreated,
    ResponseDone,
    SessionUpdated,
    UpdateSession,
)
from duplex_sdk.session import effects, inputs

from .law import law
from .moved import ConfigMoved
from .signs import Failed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .step import Step

_OF_UNITS = frozenset({inputs.AppendPlanned, inputs.UnitSubmitted, inputs.RequestsAborted})
_DROPPING = frozenset({"commit_aborted", "text_only_turn_unsupported"})
"""Errors that end something besides refusing their command."""


@law(11, "step", ErrorEvent)
def a_refused_command_leaves_no_trace(step: Step) -> bool:
    """What is refused at once, with nothing else to do in the step."""
    command = step.command
    if command is None or command.event_id is None or not step.still:
        return False
    code = step.refusals.get(command.event_id)
    if code is None or len(step.events) > 1 or code in _DROPPING:
        return False
    assert step.after == step.before, f"{code} changed the session"
    return True


@law(12, "step", ErrorEvent)
def a_command_is_refused_once(step: Step) -> bool:
    """One error for each refused command, with its id and its type."""
    for event in step.tells(ErrorEvent):
        asked = event.error.event_id
        if asked is None:
            continue
        # One that found no room is told again as it was.
        first = step.life.refused.get(asked, event.event_id)
        assert first == event.event_id, f"{asked} was refused twice"
        refused = step.life.commands.get(asked, step.command)
        assert refused is not None
        assert event.command == type(refused).type, f"{asked} was no {event.command}"
    return bool(step.refusals)


@law(13, "step", ErrorEvent)
def a_refused_update_changes_nothing(step: Step) -> bool:
    """Neither config, nor what the stages run with, nor the detector, nor their generation."""
    refused = [
        name
        for name in step.refusals
        if isinstance(step.life.commands.get(name, step.command), UpdateSession)
    ]
    if not refused or step.tells(SessionUpdated):
        return False
    assert step.after.config is step.before.config, "the config changed"
    assert step.after.runtime is step.before.runtime, "what the stages run with changed"
    assert step.after.config_generation == step.before.config_generation
    assert not step.asks(effects.ConfigureInput), "the detector changes"
    return True


@law(14, "step", ConfigMoved, SessionUpdated, effects.SubmitUnit)
def an_update_changes_all_or_nothing(step: Step) -> bool:
    """The config changes just where its client is told, and stages see one with the other."""
    changed = step.after.config is not step.before.config
    # What found no room is told again, long after it changed something.
    told = bool(step.tells(SessionUpdated)) and type(step.item) not in (
        inputs.Started,
        inputs.OutputRefused,
    )
    assert changed == told, f"the config changed: {changed}, its client was told: {told}"
    if changed:
        assert step.after.config_generation > step.before.config_generation
    for effect in step.asks(effects.SubmitUnit):
        context = effect.submission.context
        pair = (context.session_config, context.runtime_config)
        known = step.life.published.setdefault(context.config_generation, pair)
        assert known == pair, "two configs of one generation"
    return changed


@law(15, "step", ResponseCreated)
def options_apply_to_their_own_response(step: Step) -> bool:
    """Those that were refused or discarded never show, and none shows twice."""
    looked = False
    for event in step.tells(ResponseCreated):
        own = _metadata(event.response.metadata)
        if not own:
            continue
        looked = True
        commands = dict(step.life.commands)
        if step.command is not None and step.command.event_id is not None:
            commands[step.command.event_id] = step.command
        refused = step.life.refused.keys() | step.refusals.keys()
        waiting = [
            name
            for name, command in commands.items()
            if isinstance(command, CreateResponse)
            and (command.response.get("metadata") or {}) == own
            and name not in refused
            and name not in step.life.created
        ]
        assert waiting, f"nobody asked for a response with {own}"
        step.life.created.add(waiting[0])
    return looked


def _metadata(told: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (told or {}).items() if name != "duplex"}


@law(16, "step", ResponseCreated, ResponseDone)
def options_of_a_response_end_with_it(step: Step) -> bool:
    """The session's own config never has any of them."""
    state = step.state
    if state.response is None:
        assert state.effective_config is state.config, "options outlive their response"
    # Nothing inside of it either: it still is written as it was when it came into force.
    known, written = step.life.config
    assert known is not state.config or msgspec.json.encode(known) == written, (
        "a response changed the session's config"
    )
    return state.effective_config is not state.config


@law(17, "step", Failed)
def a_failed_effect_takes_nothing(step: Step) -> bool:
    """No number, no byte and no operation stays taken by work that failed."""
    if type(step.item) not in _OF_UNITS:
        return False
    assert (step.after.fence, step.after.seq, step.after.turn_seq) == (
        step.before.fence,
        step.before.seq,
        step.before.turn_seq,
    ), "it took a number"
    # An item of sound that waited behind it takes its own bytes when its turn comes.
    next_in_line = step.asks(effects.DecodeAudio)
    assert next_in_line or step.after.input_bytes <= step.before.input_bytes, "it took bytes"
    assert step.after.operations <= step.before.operations, "its operation goes on"
    return True
