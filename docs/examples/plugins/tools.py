"""Tools: the model asks the client's program for the time, and says what it was told."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from duplex_sdk.plugin import DuplexCapabilities, DuplexModelPlugin, PluginSpec
from duplex_sdk.stage import (
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
    ToolCall,
)

plugin = PluginSpec(name="clockwise", api="1.0", factory="tools:Clockwise", max_sessions=8)


class Clockwise(DuplexModelPlugin):
    """Claims tools, and turns of text: a tool's result is answered in one of those."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.turn_based(
            supports_multi_session=True, supports_tools=True, supports_text_only_turn=True
        )

    def pipeline(self) -> PipelineConfig:
        return PipelineConfig((StageConfig("talker", "tools:Talker"),))


@dataclass
class Talk:
    """The tools that the client's program offers now."""

    tools: tuple[str, ...]


class Talker(StageModel[Talk]):
    """Knows nothing by itself."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> Talk:
        return Talk(names(session))

    def update(self, state: Talk, session: StageSession) -> None:
        state.tools = names(session)

    def step_unit(self, unit: StageUnit[Talk], now: float) -> Iterable[StageOutput]:
        messages = unit.prompt.messages
        if not unit.prompt.respond:
            return
        if messages and messages[-1]["role"] == "tool":
            (part,) = messages[-1]["content"]
            yield unit.output(text=f"I am told: {part['text']}", end_of_turn=True)
        elif "clock" in unit.state.tools:
            call = ToolCall("clock", json.dumps({"zone": "UTC"}))
            yield unit.output(tool_call=call, end_of_turn=True)
        else:
            yield unit.output(text="I have no clock.", end_of_turn=True)


def names(session: StageSession) -> tuple[str, ...]:
    """The tools of a session by name."""
    return tuple(tool["name"] for tool in session.config.get("tools") or ())
