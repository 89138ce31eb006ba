"""What a chat answer cost and why it ended, by way of both back ends, on real servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx
import pytest
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
    TokenUsage,
    sentences,
)
from duplex_server.testing import Harness
from patience import PATIENCE_S

USAGE = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}


class Silent(StageModel[None]):
    """Loads nothing and keeps nothing."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> None:
        return None


class Thinking(Silent):
    """Tells in two pieces what it cost, unless it is asked not to count."""

    def step_unit(self, unit: StageUnit[None], now: float) -> Iterable[StageOutput]:
        if unit.prompt.kind != "conversation":
            return []
        counts = "uncounted" not in str(unit.prompt.messages[-1])
        first, rest = (TokenUsage(12, 1).data, TokenUsage(0, 4).data) if counts else ({}, {})
        return [
            unit.output(text="Not much. ", data=first),
            unit.output(text="I stop", end_of_turn=True, data=rest),
        ]


class Writing(Silent):
    """Passes on what the stage before it wrote, and ends for the reason that it was told."""

    def step_unit(self, unit: StageUnit[None], now: float) -> Iterable[StageOutput]:
        data = {"finish_reason": "length"} if unit.prompt.final else {}
        return [unit.output(text=f"{unit.prompt.text} ", end_of_turn=unit.prompt.final, data=data)]


class ByRequests(DuplexModelPlugin):
    """One stage thinks and counts, the last one speaks."""

    requests = True

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.turn_based(
            supports_text_only_turn=True, supports_chat_completions=True
        )

    def pipeline(self) -> PipelineConfig:
        names = ("Thinking", "Writing")
        stages = tuple(StageConfig(name, f"{__name__}:{name}", quick=True) for name in names)
        return PipelineConfig(stages, stage_input=sentences, turn_requests=self.requests)


class BySessions(ByRequests):
    """The same, in sessions alone."""

    requests = False


class LocalSpec(PluginSpec):
    """The descriptor of a class of this module."""

    def load(self) -> type[DuplexModelPlugin]:
        kind: type[DuplexModelPlugin] = globals()[self.factory.partition(":")[2]]
        return kind


@pytest.fixture(params=[ByRequests, BySessions])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    factory = f"{__name__}:{request.param.__name__}"
    async with Harness().server(LocalSpec(name="counting", api="1.0", factory=factory)) as server:
        base = server.url.replace("ws", "http", 1)
        async with httpx.AsyncClient(base_url=base, timeout=PATIENCE_S) as client:
            yield client


def asking(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


async def test_a_whole_answer_tells_its_cost_and_why_it_ended(client: httpx.AsyncClient) -> None:
    answer = (await client.post("/v1/chat/completions", json=asking("counted"))).json()
    assert answer["usage"] == USAGE
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"].split() == ["Not", "much.", "I", "stop"]


async def test_a_stream_tells_its_cost_last(client: httpx.AsyncClient) -> None:
    body = asking("counted", stream=True, stream_options={"include_usage": True})
    text = (await client.post("/v1/chat/completions", json=body)).text
    *events, end = (line.removeprefix("data: ") for line in text.split("\n\n") if line)
    chunks = [json.loads(event) for event in events]
    assert end == "[DONE]"
    assert chunks[-1]["usage"] == USAGE
    assert not chunks[-1]["choices"]
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"


async def test_a_model_that_does_not_count_has_no_usage(client: httpx.AsyncClient) -> None:
    body = asking("uncounted", stream=True, stream_options={"include_usage": True})
    text = (await client.post("/v1/chat/completions", json=body)).text
    assert json.loads(text.split("\n\n")[-3].removeprefix("data: "))["usage"] is None
    answer = (await client.post("/v1/chat/completions", json=asking("uncounted"))).json()
    assert "usage" not in answer
