"""What was heard of an answer that still goes on, and what its item says at its end."""

from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    Commit,
    CreateResponse,
    DeleteItem,
    ItemDone,
    OutputItemDone,
    PlaybackAcknowledged,
    ResponseDone,
    RetrieveItem,
    TruncateItem,
)
from duplex_sdk.testing.session_lab import SessionLab

POLICIES = ("commit_all_on_done", "ack_only")
WORDS = "abcdefghij"
"""Told with the last of its sound."""

SPOKEN = "ab cd ef gh ij"
"""Told word by word."""


def answering(make_lab: Any, policy: str, text: str = WORDS) -> tuple[SessionLab, str]:
    """A session 400 ms into an answer of a second."""
    answer = {"text": text, "ms": 1000, "words": text is SPOKEN, "delay_ms": 0}
    script = {"turns": "commit", "unit_ms": 100, "answers": [answer] * 2}
    lab: SessionLab = make_lab({"playback_commit_policy": policy}, script=script)
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(400)
    response = lab.session.state.response
    assert response is not None
    assert 300 <= response.audio_ms < 1000
    return lab, response.item_id


def said(item: Any) -> str:
    (part,) = item.content
    return str(part.transcript)


def told_at_the_end(lab: SessionLab, item_id: str) -> set[str]:
    """What the events that close an answer make its item say."""
    items = [e.item for e in lab.events if isinstance(e, ItemDone | OutputItemDone)]
    for event in lab.events:
        if isinstance(event, ResponseDone):
            items.extend(event.response.output)
    ours = [item for item in items if item.id == item_id]
    assert len(ours) == 3, "in two events of its own, and in the ending of the response"
    return {said(item) for item in ours}


def retrieved(lab: SessionLab, item_id: str) -> str:
    lab.send(RetrieveItem(item_id=item_id))
    return said(lab.events[-1].item)


def remembered(lab: SessionLab, item_id: str) -> str:
    message = lab.session.state.history.message(item_id)
    return "" if message is None else "".join(part["text"] for part in message["content"])


def acknowledged(lab: SessionLab) -> Any:
    return [e for e in lab.events if isinstance(e, PlaybackAcknowledged)][-1].event


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("by_ack", [True, False])
@pytest.mark.parametrize(("cut_ms", "left"), [(0, ""), (200, "ab")])
def test_a_cut_of_an_open_answer_holds_for_all_that_tells_of_its_item_later(
    make_lab: Any, policy: str, by_ack: bool, cut_ms: int, left: str
) -> None:
    lab, item_id = answering(make_lab, policy)
    if by_ack:
        lab.send(AckPlayback(item_id=item_id, played_ms=cut_ms, truncate=True))
    else:
        lab.send(TruncateItem(item_id=item_id, audio_end_ms=cut_ms))
    lab.run(3000)
    assert told_at_the_end(lab, item_id) == {left}
    assert (retrieved(lab, item_id), remembered(lab, item_id)) == (left, left)
    lab.send(AckPlayback(item_id=item_id, played_ms=1000))
    assert (retrieved(lab, item_id), remembered(lab, item_id)) == (left, left)


def test_words_heard_of_an_open_answer_are_those_of_its_item_and_grow_with_what_is_heard(
    make_lab: Any,
) -> None:
    lab, item_id = answering(make_lab, "ack_only", SPOKEN)
    lab.send(AckPlayback(item_id=item_id, played_ms=200))
    assert acknowledged(lab)["history_committed"] is True
    assert remembered(lab, item_id) == "ab"
    lab.run(3000)
    assert told_at_the_end(lab, item_id) == {"ab"}
    assert (retrieved(lab, item_id), remembered(lab, item_id)) == ("ab", "ab")
    for played, heard in ((600, "ab cd ef"), (1000, SPOKEN)):
        lab.send(AckPlayback(item_id=item_id, played_ms=played))
        assert (retrieved(lab, item_id), remembered(lab, item_id)) == (heard, heard)


@pytest.mark.parametrize("acks", [(), (0,)])
def test_an_answer_of_which_nothing_was_heard_yet_waits_with_all_its_words(
    make_lab: Any, acks: tuple[int, ...]
) -> None:
    lab, item_id = answering(make_lab, "ack_only")
    for played in acks:
        lab.send(AckPlayback(item_id=item_id, played_ms=played))
    lab.run(3000)
    assert told_at_the_end(lab, item_id) == {WORDS}
    assert (retrieved(lab, item_id), remembered(lab, item_id)) == (WORDS, "")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cut", [True, False])
def test_nothing_that_is_heard_of_a_deleted_answer_brings_it_back(
    make_lab: Any, policy: str, cut: bool
) -> None:
    lab, item_id = answering(make_lab, policy)
    lab.run(3000)
    lab.send(DeleteItem(item_id=item_id))
    lab.send(AckPlayback(item_id=item_id, played_ms=400, truncate=cut))
    assert acknowledged(lab)["history_committed"] is False
    assert (item_id in lab.session.state.history, item_id in lab.session.state.items) == (
        False,
        False,
    )
    lab.send(CreateResponse())
    lab.run(3000)
    assert remembered(lab, item_id) == ""
