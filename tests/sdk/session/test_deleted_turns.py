"""User items that are deleted before they were answered: nobody hears or answers them any more."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    AppendAudio,
    Commit,
    CreateItem,
    CreateResponse,
    DeleteItem,
    ItemAdded,
)
from duplex_sdk.session import turn_input
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab, tone


class Early(Scripted):
    """The scripted model, with its ears open all the time."""

    early_input = True


KINDS = pytest.mark.parametrize("kind", [Scripted, Early])


def lab_of(kind: type[Scripted], *, ms: int = 400) -> SessionLab:
    """A model that says how much it heard, and answers no text."""
    answers = [{"ms": ms, "delay_ms": 0, "heard": True}]
    plugin = kind({"script": {"turns": "commit", "answers": answers}})
    able = replace(plugin.capabilities(max_sessions=1), supports_text_only_turn=False)
    return SessionLab(plugin, capabilities=able)


def commit(lab: SessionLab, ms: float, **command: Any) -> str:
    """A committed turn; its item's id."""
    lab.speak(ms)
    lab.send(Commit(**command))
    lab.run(100)
    added = [e.item for e in lab.events if isinstance(e, ItemAdded) and e.item.role == "user"]
    return added[-1].id


def errors(lab: SessionLab) -> list[str]:
    rendered = (event.to_realtime() for event in lab.events)
    return [each["error"]["code"] for each in rendered if each["type"] == "error"]


def heard(lab: SessionLab) -> list[str]:
    """What each answer says that it heard."""
    rendered = (event.to_realtime() for event in lab.events)
    done = [each for each in rendered if each["type"] == "response.output_audio_transcript.done"]
    return [each["transcript"].partition(",")[0] for each in done]


@KINDS
def test_a_deleted_turn_is_not_answered(kind: type[Scripted]) -> None:
    lab = lab_of(kind)
    item_id = commit(lab, 300)
    lab.send(DeleteItem(item_id=item_id), CreateResponse())
    lab.run(2000)
    assert errors(lab) == ["response_create_without_input"]
    assert lab.session.input_bytes == 0
    assert not heard(lab)


def test_of_several_turns_the_others_are_heard() -> None:
    lab = lab_of(Scripted)
    commit(lab, 200)
    gone = commit(lab, 300)
    commit(lab, 400)
    lab.send(DeleteItem(item_id=gone), CreateResponse())
    lab.run(2000)
    assert heard(lab) == ["heard 600 ms"]
    assert lab.session.input_bytes == 0


@KINDS
def test_a_deleted_turn_over_an_answer_is_not_answered_after_it(kind: type[Scripted]) -> None:
    lab = lab_of(kind, ms=3000)
    commit(lab, 300, response_create=True)
    item_id = commit(lab, 900, response_create=True)
    lab.send(DeleteItem(item_id=item_id))
    lab.run(10_000)
    assert heard(lab) == ["heard 300 ms"]
    assert lab.session.input_bytes == 0
    commit(lab, 500, response_create=True)
    lab.run(10_000)
    assert heard(lab) == ["heard 300 ms", "heard 500 ms"]


def test_a_deleted_item_of_recorded_speech_is_not_heard() -> None:
    lab = lab_of(Scripted)
    part = {"type": "input_audio", "audio": base64.b64encode(tone(300)).decode()}
    lab.send(CreateItem(item={"id": "item_x", "role": "user", "content": [part]}))
    lab.send(DeleteItem(item_id="item_x"), CreateResponse())
    lab.run(2000)
    assert errors(lab) == ["response_create_without_input"]
    assert lab.session.input_bytes == 0


def test_turns_without_an_answer_are_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("commit_flow", "item_audio"):
        monkeypatch.setattr(f"duplex_sdk.session.{module}.MOST_RETAINED", 5)
    assert turn_input.MOST_RETAINED == 1024
    lab = lab_of(Scripted)
    for _ in range(9):
        lab.send(AppendAudio(audio=tone(20), is_speech=True), Commit())
    part = {"type": "input_audio", "audio": base64.b64encode(tone(300)).decode()}
    lab.send(CreateItem(item={"role": "user", "content": [part]}))
    assert set(errors(lab)) == {"input_backpressure"}
    assert len(errors(lab)) == 5
    assert len(lab.session.state.turn_input.retained) == 5
    lab.send(CreateResponse())
    lab.run(2000)
    # What found no place was kept uncommitted, and is heard with the turn that it belongs to.
    assert heard(lab) == ["heard 100 ms"]
    lab.send(Commit(response_create=True))
    lab.run(2000)
    assert heard(lab) == ["heard 100 ms", "heard 80 ms"]
