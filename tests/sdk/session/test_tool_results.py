"""Results of functions: they wait until a model has read them, and no longer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import Commit, CreateItem, CreateResponse
from duplex_sdk.session import effects, inputs
from duplex_sdk.stage import ToolCall
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab

ROUNDS = 40
"""More than results may wait at once."""


def lab_of(turns: str = "commit", **session: Any) -> SessionLab:
    """A model that answers speech and results, and never text alone."""
    script = {"turns": turns, "answers": [{"ms": 200, "delay_ms": 1000}]}
    plugin = Scripted({"script": script})
    able = replace(plugin.capabilities(max_sessions=1), supports_text_only_turn=False)
    return SessionLab(plugin, session, capabilities=able)


def call(lab: SessionLab, call_id: str, **output: Any) -> None:
    """The model calls a function."""
    lab.stage_output(
        lab.submitted[-1].context, tool_call=ToolCall("clock", "{}", call_id), **output
    )


def give(lab: SessionLab, call_id: str) -> None:
    item = {"type": "function_call_output", "call_id": call_id, "output": "noon"}
    lab.send(CreateItem(item=item, event_id=call_id))


def ask(lab: SessionLab) -> None:
    lab.speak(200)
    lab.send(Commit(response_create=True))


def errors(lab: SessionLab) -> list[str]:
    rendered = (event.to_realtime() for event in lab.events)
    return [each["error"]["code"] for each in rendered if each["type"] == "error"]


def test_a_model_that_hears_all_the_time_reads_each_result_with_its_next_unit() -> None:
    lab = lab_of("native", auto_response=True)
    lab.pause(200)
    for number in range(ROUNDS):
        call(lab, f"call_{number}")
        give(lab, f"call_{number}")
        lab.pause(200)
    assert errors(lab) == []
    assert not lab.session.state.tools.unread


@pytest.mark.parametrize("session", [{}, {"auto_response": True}])
def test_a_model_that_takes_turns_reads_results_with_the_turn_that_answers(
    session: dict[str, Any],
) -> None:
    lab = lab_of(**session)
    for number in range(ROUNDS):
        ask(lab)
        call(lab, f"call_{number}", end_of_turn=True)
        give(lab, f"call_{number}")
        assert lab.session.state.tools.unread == (f"call_{number}",)
    ask(lab)
    assert errors(lab) == []
    assert not lab.session.state.tools.unread


def test_a_result_that_a_spoken_turn_has_read_is_not_answered_once_more() -> None:
    lab = lab_of()
    ask(lab)
    call(lab, "call_1", end_of_turn=True)
    give(lab, "call_1")
    ask(lab)
    lab.run(3000)
    lab.send(CreateResponse())
    assert errors(lab) == ["response_create_without_input"]


def test_a_result_whose_answer_failed_can_be_answered_again() -> None:
    lab = lab_of()
    ask(lab)
    call(lab, "call_1", end_of_turn=True)
    give(lab, "call_1")
    lab.faults[effects.SubmitUnit] = lambda effect: inputs.UnitSubmitted(
        effect.op, fault=inputs.Fault("runtime_append_failed", "no")
    )
    lab.send(CreateResponse())
    del lab.faults[effects.SubmitUnit]
    lab.send(CreateResponse())
    lab.run(3000)
    assert errors(lab) == ["runtime_append_failed"]
    statuses = [
        each["response"]["status"]
        for each in (event.to_realtime() for event in lab.events)
        if each["type"] == "response.done" and each["response"]["output"][:1] != []
    ]
    assert statuses[-1] == "completed"
    assert not lab.session.state.tools.unread


def test_calls_that_nobody_answers_cost_no_more_and_no_more() -> None:
    lab = lab_of("native", auto_response=True)
    lab.pause(200)
    for number in range(600):
        call(lab, f"call_{number}")
    assert len(lab.session.state.tools) <= 512
    give(lab, "call_0")
    give(lab, "call_599")
    assert errors(lab) == ["invalid_function_call_output"]
