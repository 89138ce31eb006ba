"""What a model says at great length: no event of it reaches 1 MiB, and the session goes on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from duplex_sdk.protocol.duplex import Commit, CreateResponse
from duplex_sdk.session.response import MOST_TEXT, json_size
from duplex_sdk.stage import ToolCall
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab

FRAME = 1 << 20
LONG = "\x01" * (MOST_TEXT // 3)
"""Twice as much as is told, of the characters that take most room in JSON."""


def lab_of(turns: str = "commit", **session: Any) -> SessionLab:
    answers = [{"ms": 200, "delay_ms": 5000}]
    lab = SessionLab(Scripted({"script": {"turns": turns, "answers": answers}}), session)
    lab.speak(200)
    return lab


def rendered(lab: SessionLab) -> list[dict[str, Any]]:
    """All that was told; every one of them fits a frame."""
    lab.read_all()
    events = [event.to_realtime() for event in lab.events]
    assert max(len(msgspec.json.encode(event)) for event in events) < FRAME
    return events


def say(lab: SessionLab, **output: Any) -> None:
    lab.stage_output(lab.submitted[-1].context, **output)


@pytest.mark.parametrize("pieces", [1, 40])
@pytest.mark.parametrize("modalities", [["text"], ["text", "audio"]])
@pytest.mark.parametrize("aside", [False, True])
def test_an_answer_has_so_much_text_and_no_more(
    pieces: int, modalities: list[str], aside: bool
) -> None:
    lab = lab_of(output_modalities=modalities)
    lab.send(Commit(response_create=not aside))
    if aside:
        lab.send(CreateResponse(response={"conversation": "none"}))
    size = len(LONG) // pieces
    for start in range(0, len(LONG), size):
        say(lab, text=LONG[start : start + size])
    say(lab, text="still more", end_of_turn=True)
    (done,) = (each["response"] for each in rendered(lab) if each["type"] == "response.done")
    assert done["status"] == "incomplete"
    assert done["status_details"]["reason"] == "max_output_tokens"
    (part,) = done["output"][0]["content"]
    told = part.get("text") or part["transcript"]
    assert told == LONG[: len(told)]
    assert 0.9 * MOST_TEXT < json_size(told) <= MOST_TEXT
    lab.speak(200)
    lab.send(Commit(response_create=True))
    say(lab, text="short", end_of_turn=True)
    last = [each["response"] for each in rendered(lab) if each["type"] == "response.done"][-1]
    assert last["status"] == "completed"


def test_a_model_that_speaks_from_unit_to_unit_is_cut_too_and_speaks_again() -> None:
    lab = lab_of("native", auto_response=True)
    say(lab, text=LONG)
    say(lab, text="still more")
    say(lab, text="and more", end_of_turn=True)
    say(lab, text="again", end_of_turn=True)
    done = [each["response"] for each in rendered(lab) if each["type"] == "response.done"]
    assert [each["status"] for each in done] == ["incomplete", "completed"]
    assert done[1]["output"][0]["content"][0]["transcript"] == "again"


@pytest.mark.parametrize(
    "call",
    [ToolCall("f", LONG, "call_1"), ToolCall(LONG, "{}", "call_1"), ToolCall("f", "{}", LONG)],
)
def test_a_call_that_is_too_long_to_be_told_is_an_error(call: ToolCall) -> None:
    lab = lab_of()
    lab.send(Commit(response_create=True))
    say(lab, tool_call=call, end_of_turn=True)
    codes = [each["error"]["code"] for each in rendered(lab) if each["type"] == "error"]
    assert codes == ["runtime_data_plane_stream_failed"]
    assert len(lab.session.state.tools) == 0


def test_what_a_model_says_that_it_heard_is_cut() -> None:
    lab = lab_of()
    lab.send(Commit(response_create=True))
    say(lab, user_text=LONG)
    say(lab, user_text=LONG, user_text_final=True)
    words = [each["transcript"] for each in rendered(lab) if each["type"].endswith("n.completed")]
    assert [json_size(each) for each in words] == [pytest.approx(MOST_TEXT, abs=6)]
