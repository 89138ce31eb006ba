"""The heavy half, which is light: it says what the script tells it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from duplex_sdk.audio.chunk import SAMPLE_BYTES
from duplex_sdk.stage import (
    Json,
    LoadContext,
    StageInfo,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
    ToolCall,
)
from duplex_sdk.testing.busy import busy
from duplex_sdk.testing.energy_gate import EnergyGate
from duplex_sdk.testing.faulty_steps import FaultySteps
from duplex_sdk.testing.signals import describe

from .script import Answer, Script, parse
from .speech import Speech

__all__ = ["ScriptedModel"]

_TURN_END_MS = 400
_SOON = 1e-6


@dataclass(slots=True)
class _Talk:
    """One session: its script and where it stands in it; ms are those of the input clock."""

    session: StageSession
    script: Script
    ordinal: int
    faults: FaultySteps
    turns: int = 0
    responses: int = 0
    heard: list[bytes] = field(default_factory=list)
    speeches: dict[str, tuple[StageUnit[_Talk], Speech]] = field(default_factory=dict)
    clock_ms: float = 0.0
    acts: int = 0
    murmured: bool = False
    gate: EnergyGate = field(default_factory=EnergyGate)
    waits_for_tool: bool = False
    prefilled: bool = False

    @property
    def speech(self) -> Speech | None:
        """What it says now; a native model has one thing to say at a time."""
        return next((speech for _, speech in self.speeches.values()), None)


class ScriptedModel(StageModel[_Talk]):
    """Follows scripts, one session at a time."""

    def load(self, context: LoadContext) -> StageInfo:
        """Nothing to load."""
        self._default: Mapping[str, Json] = context.options.get("script") or {}
        self._opened = 0
        return StageInfo()

    def open(self, session: StageSession) -> _Talk:
        """A session at the start of its script."""
        script = self._script(session)
        faults = FaultySteps(script.faults, script.out_rate)
        talk = _Talk(session, script, self._opened, faults)
        self._opened += 1
        faults.strike("open")
        return talk

    def prefill(self, state: _Talk, now: float) -> float | None:
        """One pause of ``prefill_ms``."""
        pause = None if state.prefilled else state.script.prefill_ms
        state.prefilled = True
        return pause or None

    def update(self, state: _Talk, session: StageSession) -> None:
        """Take a new script; an answer under way goes on as it began."""
        if session.runtime.get("script") != state.session.runtime.get("script"):
            state.script = self._script(session)
            state.faults.faults = state.script.faults
        state.session = session

    def cancel(self, state: _Talk, epoch: int, heard_ms: float) -> None:
        """Fall silent."""
        state.speeches.clear()

    def close(self, state: _Talk) -> None:
        """Nothing to free, but it may be told to fail."""
        state.faults.strike("close")

    def step_unit(self, unit: StageUnit[_Talk], now: float) -> Iterable[StageOutput]:
        """Hear the unit, then say what is due."""
        talk, prompt, script = unit.state, unit.prompt, unit.state.script
        busy(script.cost_s)
        if prompt.kind == "discard":
            talk.heard.clear()
        if prompt.audio is not None:
            data = prompt.audio.data
            talk.clock_ms += prompt.audio.duration_ms
            # Hours of input are kept only for a script that tells what it heard.
            if script.tells_heard or not talk.heard:
                talk.heard.append(data[: len(data) - prompt.padding * SAMPLE_BYTES])
        outputs = _native(unit) if script.turns == "native" else _by_turns(unit, now)
        if not script.faults:
            return outputs
        spoilt = talk.faults.spoil(unit, outputs, now)
        for _, speech in talk.speeches.values():
            speech.endless |= talk.faults.endless
        return spoilt

    def _script(self, session: StageSession) -> Script:
        return parse(session.runtime.get("script", self._default))


def _by_turns(unit: StageUnit[_Talk], now: float) -> list[StageOutput]:
    """It answers each request's finished turn, then goes on by its own ticks."""
    talk = unit.state
    outputs = _answer(unit, now) if unit.prompt.final or unit.prompt.kind == "conversation" else []
    for asked, speech in tuple(talk.speeches.values()):
        while speech.due <= now + _SOON and not speech.over:
            outputs.append(asked.output(**speech.next_piece()))
            if talk.script.pace == "realtime" or speech.endless:
                speech.due += speech.pause_ms() / 1000
        if speech.over:
            del talk.speeches[asked.request_id]
    due = [speech.due for _, speech in talk.speeches.values()]
    return [*outputs, unit.output(again_ms=(min(due) - now) * 1000)] if due else outputs


def _native(unit: StageUnit[_Talk]) -> list[StageOutput]:
    """Each unit of input moves it on by one unit of output."""
    talk = unit.state
    talk.gate.hear(unit.prompt.audio, in_a_row=talk.speech is not None)
    if talk.speech is not None and _yields(unit):
        talk.speeches.clear()
        return [unit.output(end_of_turn=True, listen=True)]
    outputs = _decide(unit) if talk.speech is None else []
    if (speech := talk.speech) is None or speech.due > talk.clock_ms + _SOON:
        return [*outputs, unit.output(listen=True)]
    outputs.append(unit.output(**speech.next_piece()))
    while talk.script.pace == "burst" and not (speech.over or speech.endless):
        outputs.append(unit.output(**speech.next_piece()))
    if speech.over:
        talk.speeches.clear()
    return outputs


def _yields(unit: StageUnit[_Talk]) -> bool:
    talk = unit.state
    act = talk.script.at[talk.acts] if talk.acts < len(talk.script.at) else None
    if act is not None and act.listen and act.ms <= talk.clock_ms:
        talk.acts += 1
        return True
    patience = talk.script.yield_after_ms
    return unit.prompt.force_listen or (patience is not None and 0 < talk.gate.loud_ms >= patience)


def _decide(unit: StageUnit[_Talk]) -> list[StageOutput]:
    """Whether a silent native model begins to speak."""
    talk, prompt, script = unit.state, unit.prompt, unit.state.script
    murmur = script.backchannel
    if murmur is not None and not talk.murmured and talk.clock_ms >= murmur.at_ms:
        talk.murmured = True
        _speak(unit, Answer(text="mm-hmm", ms=murmur.ms, delay_ms=0), talk.clock_ms, [])
        return []
    if talk.acts < len(script.at) and script.at[talk.acts].ms <= talk.clock_ms:
        talk.acts += 1
        say = script.at[talk.acts - 1].say
        return [] if say is None else _answer(unit, talk.clock_ms, say)
    asked = prompt.kind == "conversation" or prompt.final or "tool_results" in prompt.data
    pause = talk.gate.loud_ms > 0 and talk.gate.quiet_ms >= _TURN_END_MS and not script.at
    if asked or (pause and talk.session.config.get("auto_response")):
        return _answer(unit, talk.clock_ms)
    return []


def _answer(unit: StageUnit[_Talk], clock: float, say: Answer | None = None) -> list[StageOutput]:
    """End a turn of input: its transcript, then the answer or the tool call it has."""
    talk, prompt, script = unit.state, unit.prompt, unit.state.script
    heard, talk.heard = ([], talk.heard) if prompt.kind == "conversation" else (talk.heard, [])
    talk.gate.loud_ms = 0.0
    outputs: list[StageOutput] = []
    results = prompt.data.get("tool_results") or ()
    if results:
        outputs.append(unit.output(data={"took": [each.get("call_id") for each in results]}))
        if talk.waits_for_tool and script.tools is not None:
            talk.waits_for_tool = False
            _speak(unit, script.tools.then, clock, heard)
            return outputs
    talk.turns += 1
    if heard:
        outputs.append(unit.output(user_text=f"input {talk.turns}", user_text_final=True))
    if not prompt.respond:
        return outputs
    if script.tools is not None and script.tools.turn == talk.turns:
        talk.waits_for_tool = True
        call = ToolCall(script.tools.name, json.dumps(script.tools.arguments))
        return [*outputs, unit.output(tool_call=call, end_of_turn=True)]
    if say is None and script.answers:
        say = script.answers[min(talk.turns, len(script.answers)) - 1]
    if say is not None:
        _speak(unit, say, clock, heard)
    return outputs


def _speak(unit: StageUnit[_Talk], say: Answer, clock: float, heard: list[bytes]) -> None:
    talk = unit.state
    text = f"turn {talk.turns}" if say.text is None else say.text
    if say.heard:
        text = describe(b"".join(heard), talk.script.in_rate)
    elif say.instructions:
        text = str(talk.session.config.get("instructions") or "")
    due = clock + (say.delay_ms if talk.script.turns == "native" else say.delay_ms / 1000)
    speech = Speech(say, talk.script, text=text, who=(talk.ordinal, talk.responses), due=due)
    talk.speeches[unit.request_id] = unit, speech
    talk.responses += 1
