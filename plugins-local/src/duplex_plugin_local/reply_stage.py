"""The stage that thinks: a turn of the user in, text to be spoken out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from duplex_sdk.stage import (
    LoadContext,
    StageError,
    StageInfo,
    StageModel,
    StageOutput,
    StagePrompt,
    StageSession,
    StageUnit,
)

from .chat_endpoint import ChatEndpoint, ChatStream
from .chat_messages import chat_messages, spoken_instructions
from .conversation import text_of
from .durations import spoken_duration
from .routing import REHEARSE
from .rules import Question, answer

__all__ = ["ReplyStage", "Talk"]

POLL_MS = 20.0
# A turn that waits for its timer keeps its response open. Longer ones are told of in a later turn.
HOLD_S = 120.0
APOLOGY = "Sorry, my language model did not answer."


def _local_time() -> datetime:
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class _Timer:
    due: float
    name: str


@dataclass(slots=True)
class Talk:
    """What the stage knows of one session."""

    instructions: str
    timers: list[_Timer] = field(default_factory=list)
    stream: ChatStream | None = None

    def hang_up(self) -> None:
        """Stop the reply that is being written."""
        if self.stream is not None:
            self.stream.stop()
            self.stream = None

    def take_due(self, now: float) -> str:
        """What to say of the timers that ran out, and forget them; "" for none."""
        due = [timer for timer in self.timers if timer.due <= now]
        self.timers = [timer for timer in self.timers if timer.due > now]
        return "".join(f"Your timer for {timer.name} is over. " for timer in due)


class ReplyStage(StageModel[Talk]):
    """Answers by rules, or by a chat endpoint where the options name one.

    A timer really rings: the response stays open and the stage asks to be called when it is due.
    """

    def __init__(self, clock: Callable[[], datetime] = _local_time) -> None:
        """``clock``: the local time that "what time is it" asks for."""
        self._clock = clock
        self._endpoint: ChatEndpoint | None = None

    def load(self, context: LoadContext) -> StageInfo:
        """Note where replies come from."""
        options = context.options
        if options.get("llm_url"):
            self._endpoint = ChatEndpoint(
                options["llm_url"],
                options["llm_model"],
                key=os.environ.get(options.get("llm_key_env") or "") or None,
                timeout_s=options.get("llm_timeout_s") or 20.0,
            )
        return StageInfo()

    def open(self, session: StageSession) -> Talk:
        """A session that said nothing yet."""
        return Talk(spoken_instructions(session.config))

    def update(self, state: Talk, session: StageSession) -> None:
        """Take new instructions with the next turn."""
        state.instructions = spoken_instructions(session.config)

    def cancel(self, state: Talk, epoch: int, heard_ms: float) -> None:
        """Stop the reply; timers run on."""
        state.hang_up()

    def close(self, state: Talk) -> None:
        """Hang up and forget the timers."""
        state.hang_up()
        state.timers.clear()

    def step_unit(self, unit: StageUnit[Talk], now: float) -> Iterable[StageOutput]:
        """Begin a reply, or go on with one."""
        if REHEARSE in unit.prompt.data:
            return self._rehearse(unit)
        if unit.prompt.kind != "tick":
            return self._begin(unit, now)
        if unit.state.stream is not None:
            return self._go_on(unit, unit.state.stream, now)
        return _say(unit, unit.state.take_due(now), now)

    def _rehearse(self, unit: StageUnit[Talk]) -> Iterable[StageOutput]:
        """What it would answer, with no trace in the session; an endpoint is not asked twice."""
        if self._endpoint is not None:
            return []
        reply = answer(Question(_asked(unit.prompt), unit.prompt.messages, self._clock()))
        return [unit.output(text=reply.text, data={REHEARSE: True})]

    def _begin(self, unit: StageUnit[Talk], now: float) -> Iterable[StageOutput]:
        state, prompt = unit.state, unit.prompt
        state.hang_up()
        overdue = state.take_due(now)
        if self._endpoint is not None:
            state.stream = self._endpoint.ask(chat_messages(state.instructions, prompt.messages))
            return [unit.output(text=overdue or None, again_ms=POLL_MS)]
        reply = answer(Question(_asked(prompt), prompt.messages, self._clock()))
        if reply.timer_s is not None:
            state.timers.append(_Timer(now + reply.timer_s, spoken_duration(reply.timer_s)))
            if reply.timer_s > HOLD_S:
                return _say(unit, f"{overdue}{reply.text} {_LATER}", now)
        return _say(unit, overdue + reply.text, now)

    def _go_on(
        self, unit: StageUnit[Talk], stream: ChatStream, now: float
    ) -> Iterable[StageOutput]:
        done = stream.done
        text = stream.take()
        if not done:
            return [unit.output(text=text or None, again_ms=POLL_MS)]
        unit.state.stream = None
        if stream.error is None:
            return [*_cost(unit, stream), *_say(unit, text, now)]
        failure = StageError("runtime_data_plane_stream_failed", stream.error, "event")
        return [unit.output(error=failure), *_say(unit, f"{text} {APOLOGY}", now)]


def _cost(unit: StageUnit[Talk], stream: ChatStream) -> list[StageOutput]:
    """What the endpoint says that the reply cost, for the answer's ``usage``."""
    return [] if stream.usage is None else [unit.output(data=stream.usage.data)]


_LATER = (
    "I can only speak when we talk, so I will tell you the next time you say something after it."
)


def _say(unit: StageUnit[Talk], text: str, now: float) -> list[StageOutput]:
    """Say it, then end the turn, or keep it open for the next timer."""
    waits = [timer.due - now for timer in unit.state.timers if timer.due - now <= HOLD_S]
    if not waits:
        return [unit.output(text=text.rstrip() or None, end_of_turn=True)]
    # The space after it ends the sentence: it must be spoken now, not with the ringing.
    return [unit.output(text=f"{text.rstrip()} ", again_ms=min(waits) * 1000)]


def _asked(prompt: StagePrompt) -> str | None:
    """What the user said; of a turn without audio what the last message says, if it is theirs."""
    if prompt.text is not None:
        return prompt.text
    last = prompt.messages[-1] if prompt.messages else {}
    return text_of(last) if last.get("role") == "user" else None
