"""A conversation that is full: its oldest items go, and what is being made stays whole."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from duplex_sdk.protocol.duplex import Commit, CreateItem, TruncateItem
from duplex_sdk.session import effects
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab, tone

LIMIT = 5000
SOUND = {"type": "input_audio", "audio": base64.b64encode(tone(300)).decode()}
CALL = {"type": "function_call", "name": "f", "call_id": "c"}


def written(characters: int) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "input_text", "text": "x" * characters}]}


@pytest.fixture
def full() -> SessionLab:
    lab = SessionLab(Scripted({"script": {"turns": "commit", "answers": [{"ms": 2000}]}}))
    lab.session.state.items._limit = LIMIT
    lab.send(*(CreateItem(item=written(2000)) for _ in range(4)))
    return lab


def told(lab: SessionLab, since: int = 0) -> list[dict[str, Any]]:
    return [event.to_realtime() for event in lab.events[since:]]


@pytest.mark.parametrize("item", [written(100), {"role": "user", "content": [SOUND]}, CALL])
def test_an_item_at_the_root_is_told_whole(full: SessionLab, item: dict[str, Any]) -> None:
    seen = len(full.events)
    full.send(CreateItem(item={"id": "item_new", **item}, previous_item_id="root"))
    full.run(100)
    of_items = [each for each in told(full, seen) if each["type"].startswith("conversation.item")]
    assert [each["type"] for each in of_items] == [
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert {each["item"]["id"] for each in of_items} == {"item_new"}


def test_a_place_that_went_while_the_sound_was_decoded_is_refused(full: SessionLab) -> None:
    kept: list[effects.DecodeAudio] = []
    full.faults[effects.DecodeAudio] = kept.append
    oldest = next(iter(full.session.state.items)).id
    item = {"role": "user", "content": [SOUND]}
    full.send(CreateItem(item=item, previous_item_id=oldest, event_id="c1"))
    full.session.state.items.remove(oldest)
    del full.faults[effects.DecodeAudio]
    seen = len(full.events)
    full.carry_out(kept[0])
    full.run(100)
    (refused,) = told(full, seen)
    assert (refused["error"]["code"], refused["error"]["event_id"]) == ("bad_event", "c1")
    assert full.session.input_bytes == 0


def test_the_item_of_an_open_answer_is_not_forgotten_for_newer_ones(full: SessionLab) -> None:
    full.speak(300)
    full.send(Commit(response_create=True))
    full.run(500)
    response = full.session.state.response
    assert response is not None
    full.send(*(CreateItem(item=written(2000)) for _ in range(6)))
    full.send(TruncateItem(item_id=response.item_id, audio_end_ms=100))
    full.run(5000)
    types = [each["type"] for each in told(full)]
    assert "error" not in types
    done = [each for each in told(full) if each["type"] == "conversation.item.done"]
    assert response.item_id in [each["item"]["id"] for each in done]
    # Done, it is the oldest, and goes like any other.
    full.send(CreateItem(item=written(2000)))
    assert response.item_id not in full.session.state.items
