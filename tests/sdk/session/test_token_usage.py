"""Tokens that an answer cost, as its client is told."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.protocol.duplex import CancelResponse, Commit, CreateResponse
from duplex_sdk.stage import TokenUsage, ToolCall
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab

COST = TokenUsage(input_tokens=12, output_tokens=3)
TOLD = {"total_tokens": 15, "input_tokens": 12, "output_tokens": 3}


def asked(**response: Any) -> SessionLab:
    """A turn under way whose answer is a second away."""
    script = {"turns": "commit", "answers": [{"delay_ms": 1000, "ms": 200}]}
    lab = SessionLab(Scripted({"script": script}))
    if response:
        lab.send(CreateResponse(response=response))
    else:
        lab.speak(200)
        lab.send(Commit(response_create=True))
    return lab


def say(lab: SessionLab, **output: Any) -> None:
    lab.stage_output(lab.submitted[-1].context, **output)


def usages(lab: SessionLab) -> list[dict[str, int] | None]:
    rendered = (event.to_realtime() for event in lab.events)
    return [each["response"]["usage"] for each in rendered if each["type"] == "response.done"]


def test_an_answer_whose_model_tells_nothing_has_no_usage() -> None:
    lab = asked()
    lab.run(3000)
    assert usages(lab) == [None]


@pytest.mark.parametrize("response", [{}, {"conversation": "none"}])
def test_what_a_model_tells_stands_in_the_end_of_its_answer(response: dict[str, Any]) -> None:
    lab = asked(**response)
    say(lab, text="so far", end_of_turn=True, data=COST.data)
    assert usages(lab) == [TOLD]


def test_several_tellings_add_up_and_the_next_answer_begins_at_nothing() -> None:
    lab = asked()
    say(lab, text="one", data=COST.data)
    say(lab, text="two", end_of_turn=True, data=TokenUsage(0, 4).data)
    lab.speak(200)
    lab.send(Commit(response_create=True))
    say(lab, text="three", end_of_turn=True)
    assert usages(lab) == [{**TOLD, "total_tokens": 19, "output_tokens": 7}, None]


def test_work_before_an_answer_begins_counts_for_it() -> None:
    script = {"turns": "commit", "answers": [None]}
    lab = SessionLab(Scripted({"script": script}), {"auto_response": True})
    lab.speak(200)
    lab.send(Commit())
    say(lab, data=COST.data)
    say(lab, text="then", end_of_turn=True)
    assert usages(lab) == [TOLD]


def test_a_call_of_a_function_has_its_own_cost_where_nothing_is_said() -> None:
    lab = SessionLab(
        Scripted({"script": {"turns": "commit", "answers": [None]}}), {"auto_response": True}
    )
    lab.speak(200)
    lab.send(Commit())
    say(lab, tool_call=ToolCall("f", "{}"), end_of_turn=True, data=COST.data)
    assert usages(lab) == [TOLD]


def test_an_interrupted_answer_has_cost_what_was_told_so_far() -> None:
    lab = asked()
    say(lab, text="one", data=COST.data)
    lab.send(CancelResponse())
    assert usages(lab) == [TOLD]


@pytest.mark.parametrize(
    "told",
    [7, None, [], {"input_tokens": -1}, {"output_tokens": "3"}, {"input_tokens": True}],
)
def test_what_cannot_be_counted_is_not_told(told: Any) -> None:
    lab = asked()
    say(lab, text="one", end_of_turn=True, data={"usage": told})
    assert usages(lab) == [None]
