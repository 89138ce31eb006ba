"""The heavy half, which is light: it says what the script tells it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from duplex_sdk.audio.chunk import SAMPLE_BYTES, PcmChunk
from duplex_sdk.stage import (
    Json,
    LoadContext,
    StageInfo,
    StageModel,
    StageOutput,
    StagePrompt,
    StageSession,
    StageUnit,
    ToolCall,
)

from .script import Answer, Delay, Fault, Script, parse
from .speech import Speech, describe_input

__all__ = ["ScriptedModel", "SessionState"]

_LOUD = 0.01
_TURN_END_MS = 400
_EPSILON = 1e-6


@dataclass(slots=True)
class SessionState:
    """One session: its script and where it stands in it. Times of the input clock are in ms."""

    session: StageSession
    script: Script
    ordinal: int
    turns: int = 0
    responses: int = 0
    heard: list[bytes] = field(default_factory=list)
    speech: Speech | None = None
    clock_ms: float = 0.0
    acts_done: int = 0
    murmured: bool = False
    loud_ms: float = 0.0
    quiet_ms: float = 0.0
    waits_for_tool: bool = False
    prefilled: bool = False
    steps: int = 0
    late: list[tuple[float, StageOutput]] = field(default_factory=list)


Unit = StageUnit[SessionState]


class ScriptedModel(StageModel[SessionState]):
    """Follows scripts, one session at a time."""

    def load(self, context: LoadContext) -> StageInfo:
        """See ``StageModel``."""
        self._default: Mapping[str, Json] = context.options.get("script") or {}
        self._opened = 0
        return StageInfo(device="cpu")

    def open(self, session: StageSession) -> SessionState:
        """See ``StageModel``."""
        script = self._script(session)
        _fail(script.fault("open", 1))
        state = SessionState(session, script, self._opened)
        self._opened += 1
        return state

    def prefill(self, state: SessionState, now: float) -> float | None:
        """See ``StageModel``."""
        if state.prefilled or not state.script.prefill_ms:
            return None
        state.prefilled = True
        return state.script.prefill_ms

    def update(self, state: SessionState, session: StageSession) -> None:
        """See ``StageModel``; an answer under way goes on as it began."""
        if session.runtime.get("script") != state.session.runtime.get("script"):
            state.script = self._script(session)
        state.session = session

    def cancel(self, state: SessionState, epoch: int, heard_ms: float) -> None:
        """See ``StageModel``."""
        state.speech = None

    def close(self, state: SessionState) -> None:
        """See ``StageModel``."""
        _fail(state.script.fault("close", 1))

    def step_unit(self, unit: Unit, now: float) -> Iterable[StageOutput]:
        """See ``StageModel``."""
        state = unit.state
        if state.script.cost_s:
            _burn(state.script.cost_s)
        _hear(state, unit.prompt)
        native = state.script.turns == "native"
        outputs = _native(unit) if native else _turn(unit, now)
        if state.late:
            outputs.extend(_late(unit, now))
        if not state.script.faults:
            return outputs
        state.steps += 1
        return _with_fault(state.script.fault("step", state.steps), unit, outputs, now)

    def _script(self, session: StageSession) -> Script:
        return parse(session.runtime.get("script", self._default))


def _hear(state: SessionState, prompt: StagePrompt) -> None:
    if prompt.kind == "discard":
        state.heard.clear()
    if prompt.audio is None:
        return
    data = prompt.audio.data
    state.clock_ms += prompt.audio.duration_ms
    state.heard.append(data[: len(data) - prompt.padding * SAMPLE_BYTES])


def _turn(unit: Unit, now: float) -> list[StageOutput]:
    """A turn-based model: it answers a finished turn, then goes on by its own ticks."""
    state, prompt = unit.state, unit.prompt
    outputs: list[StageOutput] = []
    if prompt.final or prompt.kind == "conversation":
        outputs = _begin(unit, now)
    speech = state.speech
    while speech is not None:
        if speech.due > now + _EPSILON:
            outputs.append(unit.output(again_ms=(speech.due - now) * 1000))
            break
        outputs.append(unit.output(**speech.next_piece()))
        if state.script.pace == "realtime" or speech.endless:
            speech.due += speech.pause_ms() / 1000
        if speech.over:
            state.speech = speech = None
    return outputs


def _native(unit: Unit) -> list[StageOutput]:
    """A native model: each unit of input moves it on by one unit."""
    state, prompt = unit.state, unit.prompt
    outputs: list[StageOutput] = []
    if prompt.audio is None and prompt.kind != "conversation":
        return outputs
    _listen(state, prompt)
    if state.speech is not None and _yields(state, prompt):
        state.speech = None
        return [unit.output(end_of_turn=True, listen=True)]
    if state.speech is None:
        outputs = _decide(unit)
    speech = state.speech
    if speech is None or speech.due > state.clock_ms + _EPSILON:
        return [*outputs, unit.output(listen=True)]
    outputs.append(unit.output(**speech.next_piece()))
    while state.script.pace == "burst" and not speech.over and not speech.endless:
        outputs.append(unit.output(**speech.next_piece()))
    if speech.over:
        state.speech = None
    return outputs


def _listen(state: SessionState, prompt: StagePrompt) -> None:
    """The energy gate."""
    if prompt.audio is None:
        return
    samples = prompt.audio.numpy()
    length = prompt.audio.duration_ms
    if samples.size and float(samples @ samples) / samples.size > _LOUD * _LOUD:
        state.loud_ms += length
        state.quiet_ms = 0.0
    else:
        state.quiet_ms += length
        if state.speech is not None:
            state.loud_ms = 0.0


def _yields(state: SessionState, prompt: StagePrompt) -> bool:
    script = state.script
    if prompt.force_listen:
        return True
    acts = script.at[state.acts_done :]
    if acts and acts[0].listen and acts[0].ms <= state.clock_ms:
        state.acts_done += 1
        return True
    return script.yield_after_ms is not None and 0 < state.loud_ms >= script.yield_after_ms


def _decide(unit: Unit) -> list[StageOutput]:
    """Whether a silent native model begins to speak."""
    state, prompt = unit.state, unit.prompt
    script = state.script
    murmur = script.backchannel
    if murmur is not None and not state.murmured and state.clock_ms >= murmur.at_ms:
        state.murmured = True
        _speak(state, Answer(text="mm-hmm", ms=murmur.ms, delay_ms=0), state.clock_ms)
        return []
    if state.acts_done < len(script.at) and script.at[state.acts_done].ms <= state.clock_ms:
        act = script.at[state.acts_done]
        state.acts_done += 1
        return _begin(unit, state.clock_ms, act.say) if act.say is not None else []
    asked = prompt.kind == "conversation" or prompt.final or bool(prompt.data.get("tool_results"))
    turn_over = state.loud_ms > 0 and state.quiet_ms >= _TURN_END_MS
    by_itself = bool(state.session.config.get("auto_response")) and turn_over and not script.at
    return _begin(unit, state.clock_ms) if asked or by_itself else []


def _begin(unit: Unit, clock: float, say: Answer | None = None) -> list[StageOutput]:
    """End a turn of input: its transcript, then the answer or the tool call it has."""
    state, prompt = unit.state, unit.prompt
    script = state.script
    heard, state.heard, state.loud_ms = state.heard, [], 0.0
    outputs: list[StageOutput] = []
    results = prompt.data.get("tool_results") or ()
    if results:
        outputs.append(unit.output(data={"took": [item.get("call_id") for item in results]}))
    answer = script.tools.then if script.tools and state.waits_for_tool and results else say
    if answer is None:
        state.turns += 1
        if heard:
            outputs.append(unit.output(user_text=f"input {state.turns}", user_text_final=True))
        tools = script.tools
        if prompt.respond and tools is not None and tools.turn == state.turns:
            state.waits_for_tool = True
            call = ToolCall(tools.name, json.dumps(tools.arguments))
            return [*outputs, unit.output(tool_call=call, end_of_turn=True)]
        if script.answers:
            answer = script.answers[min(state.turns, len(script.answers)) - 1]
    if answer is not None and prompt.respond:
        _speak(state, answer, clock, heard)
    return outputs


def _speak(
    state: SessionState, answer: Answer, clock: float, heard: list[bytes] | None = None
) -> None:
    script = state.script
    text = f"turn {state.turns}" if answer.text is None else answer.text
    if answer.heard:
        text = describe_input(heard or [], script.in_rate)
    elif answer.instructions:
        text = str(state.session.config.get("instructions") or "")
    delay = answer.delay_ms if script.turns == "native" else answer.delay_ms / 1000
    state.speech = Speech(
        answer,
        script,
        text=text,
        session=state.ordinal,
        ordinal=state.responses,
        due=clock + delay,
    )
    state.responses += 1


def _burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def _fail(fault: Fault | None) -> None:
    """The faults that any method can have."""
    if fault is None:
        return
    if isinstance(fault.do, Delay):
        time.sleep((fault.do.hang_ms or fault.do.block_ms or 0) / 1000)
    elif fault.do in ("system_exit", "die"):
        raise SystemExit("scripted fault")
    elif fault.do == "raise":
        raise RuntimeError("scripted fault")


def _with_fault(
    fault: Fault | None, unit: Unit, outputs: list[StageOutput], now: float
) -> Iterable[StageOutput]:
    _fail(fault)
    if fault is None:
        return outputs
    if isinstance(fault.do, Delay):
        if fault.do.late_ms is not None:
            unit.state.late.append((now + fault.do.late_ms / 1000, unit.output(text=" late")))
            outputs.append(unit.output(again_ms=fault.do.late_ms))
        return outputs
    if fault.do == "none":
        return cast(Iterable[StageOutput], None)
    if fault.do == "garbage":
        return cast(Iterable[StageOutput], ["garbage"])
    if fault.do == "double":
        return [output for output in outputs for _ in range(2)]
    if fault.do == "endless":
        if unit.state.speech is not None:
            unit.state.speech.endless = True
        return outputs
    return [*outputs, unit.output(audio=_bad_audio(fault.do, unit.state.script.out_rate))]


def _bad_audio(how: str, rate: int) -> PcmChunk | None:
    count = rate // 50
    arrays: dict[str, Any] = {
        "nan": np.full(count, np.nan, dtype=np.float32),
        "clip": np.full(count, 4.0, dtype=np.float32),
        "stereo": np.zeros((count, 2), dtype=np.float32),
        "float64": np.zeros(count, dtype=np.float64),
        "int32": np.zeros(count, dtype=np.int32),
        "wrong_rate": np.zeros(count, dtype=np.float32),
    }
    array = arrays.get(how)
    return None if array is None else PcmChunk.of(array, rate * 2 if how == "wrong_rate" else rate)


def _late(unit: Unit, now: float) -> list[StageOutput]:
    state = unit.state
    due = [output for at, output in state.late if at <= now + _EPSILON]
    state.late = [(at, output) for at, output in state.late if at > now + _EPSILON]
    return due
