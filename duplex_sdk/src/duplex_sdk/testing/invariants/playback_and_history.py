"""Laws 62 to 73: what was heard is what is remembered."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import (
    AckPlayback,
    ItemDeleted,
    ItemTruncated,
    PlaybackAcknowledged,
    ResponseCreated,
    ResponseDone,
    TruncateItem,
    transcript_prefix,
)

from .law import law
from .moved import CursorsMoved, HistoryMoved

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from duplex_sdk.protocol.duplex import Item
    from duplex_sdk.session.playback import PlaybackCursor

    from .response_trace import ResponseTrace
    from .step import Rest, Step


@law(62, "step", CursorsMoved)
def what_was_played_never_goes_back(step: Step) -> bool:
    """Nor what counts as heard, unless its client cuts it."""
    before, after = step.before.cursors, step.after.cursors
    if before == after:
        return False
    cuts = isinstance(step.command, TruncateItem) or (
        isinstance(step.command, AckPlayback) and step.command.truncate
    )
    looked = False
    for name, (played, committed, _) in after.items():
        old = before.get(name)
        if old is None:
            continue
        assert played >= old[0], f"played_ms of {name} went back to {played}"
        assert committed >= old[1] or cuts or not step.still, "committed_ms went back"
        looked = looked or committed > old[1]
    return looked


@law(63, "step", CursorsMoved)
def no_more_is_heard_than_was_made(step: Step) -> bool:
    """``committed_ms`` is never below nothing, nor beyond the audio."""
    if step.before.cursors == step.after.cursors:
        return False
    for name, (_, committed, audio_ms) in step.after.cursors.items():
        assert 0 <= committed <= audio_ms + 1, f"{committed} ms of {audio_ms} ms of {name}"
    return any(committed for _, committed, _ in step.after.cursors.values())


@law(64, "step", AckPlayback)
def an_acknowledgement_is_of_one_response(step: Step) -> bool:
    """It moves no other cursor than that of the response it is for."""
    moved = [
        name
        for name, cursor in step.after.cursors.items()
        if name in step.before.cursors and step.before.cursors[name][:2] != cursor[:2]
    ]
    for event in step.tells(PlaybackAcknowledged):
        named = str(event.event["item_id"]).removeprefix("item_")
        assert set(moved) <= {named}, f"an acknowledgement of {named} moved {moved}"
    assert moved == [] or step.tells(PlaybackAcknowledged), f"{moved} moved untold"
    return bool(moved)


def spoken(message: Mapping[str, Any] | None) -> str:
    """The text of an assistant's message; of none: nothing."""
    content = "" if message is None else message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content)


def shown(item: Item | None) -> str:
    """The text that an item shows."""
    parts = () if item is None else item.content or ()
    return "".join(part.transcript or part.text or "" for part in parts)


def _touched(step: Step) -> list[ResponseTrace]:
    """The ended responses whose text this step may have changed."""
    names = [event.response_id for event in step.tells(ResponseDone)]
    names += [
        str(event.event["item_id"]).removeprefix("item_")
        for event in step.tells(PlaybackAcknowledged)
    ]
    traces = [step.life.traces.known(name) for name in dict.fromkeys(names)]
    return [trace for trace in traces if trace is not None and trace.status is not None]


@law(65, "step", ResponseDone, PlaybackAcknowledged)
def only_heard_words_are_remembered(step: Step) -> bool:
    """Under ``ack_only``: the aligned beginning of the text, up to what counts as heard."""
    if step.state.config.playback_commit_policy != "ack_only" or step.state.overflowed:
        return False
    looked = False
    for trace in _touched(step):
        cursor = step.state.playback.cursor(trace.id)
        if cursor is None or trace.status == "failed" or not trace.audio_ms:
            continue
        if trace.policy != "ack_only" or not (trace.in_conversation and trace.remembered):
            continue
        if cursor.text_requires_complete_audio:
            continue
        text = spoken(step.state.history.message(f"item_{trace.id}"))
        deleted = f"item_{trace.id}" in step.life.deleted
        expected = "" if deleted else _heard(trace, cursor)
        assert text.rstrip() == expected, f"{text!r} is remembered of {trace.text!r}"
        looked = looked or bool(text)
    return looked


def _heard(trace: ResponseTrace, cursor: PlaybackCursor) -> str:
    """The words that were heard, as far as no client cut them off again."""
    marks, length = tuple(trace.marks), cursor.audio_ms
    heard = transcript_prefix(trace.text, marks, length, cursor.committed_ms)
    expected = trace.text.rstrip() if cursor.complete else heard
    if cursor.cap_ms is None:
        return expected
    return min(expected, transcript_prefix(trace.text, marks, length, cursor.cap_ms), key=len)


@law(66, "step", ResponseDone)
def more_audio_means_more_words(step: Step) -> bool:
    """No audio means none of them, all of it all of them."""
    looked = False
    for event in step.tells(ResponseDone):
        trace = step.life.traces.known(event.response_id)
        if trace is None or not trace.audio_ms or not trace.text:
            continue
        looked = True
        marks, length = tuple(trace.marks), trace.audio_ms
        places = [length * part / 7 for part in range(8)]
        texts = [transcript_prefix(trace.text, marks, length, place) for place in places]
        assert texts[0] == "", f"{texts[0]!r} before any audio"
        assert texts[-1] == trace.text.rstrip(), f"{texts[-1]!r} after all of it"
        for shorter, longer in pairwise(texts):
            assert longer.startswith(shorter), f"{shorter!r} is no beginning of {longer!r}"
    return looked


@law(67, "step", ResponseDone, PlaybackAcknowledged, ItemTruncated)
def what_was_cut_never_comes_back(step: Step) -> bool:
    """After a client's cut of a response that is over, its text never grows."""
    looked = False
    for trace in _touched(step):
        item_id = f"item_{trace.id}"
        texts = (spoken(step.state.history.message(item_id)), shown(step.state.items.get(item_id)))
        if trace.kept is not None:
            looked = True
            assert max(map(len, texts)) <= trace.kept, f"{texts} of {trace.kept} characters"
        cursor = step.state.playback.cursor(trace.id)
        if cursor is not None and cursor.cap_ms is not None and not step.tells(ResponseDone):
            marks = tuple(trace.marks)
            cut = transcript_prefix(trace.text, marks, cursor.audio_ms, cursor.cap_ms)
            assert len(texts[0]) <= len(cut) or not trace.audio_ms, f"{texts[0]!r}, cut to {cut!r}"
            trace.kept = max(map(len, texts))
    return looked


@law(68, "step", HistoryMoved)
def history_keeps_its_order(step: Step) -> bool:
    """That of user commits and response openings, whenever words are added."""
    if step.after.messages is step.before.messages or not step.life.ordered:
        return False
    places = {id(message): place for place, message in enumerate(step.after.messages)}
    history, last = step.state.history, -1
    for item_id in step.life.order:
        place = places.get(id(history.message(item_id)))
        if place is not None:
            assert place > last, f"{item_id} has moved"
            last = place
    return last > 0


@law(69, "step", ItemDeleted)
def one_item_is_deleted(step: Step) -> bool:
    """That one, even if another says the same."""
    for event in step.tells(ItemDeleted):
        assert all(item.id != event.item_id for item in step.after.items), "it is still there"
        assert event.item_id not in step.state.history, "history still holds it"
    deleted = {event.item_id for event in step.tells(ItemDeleted)}
    left = {item.id for item in step.before.items} - {item.id for item in step.after.items}
    assert left == deleted, f"{left - deleted} went as well"
    return True


@law(70, "rest")
def history_shows_no_empty_place(rest: Rest) -> bool:
    """And whoever reads it cannot change it."""
    messages = rest.state.history.messages()
    for message in messages:
        full = message.get("content") or message.get("tool_calls") or message.get("tool_call_id")
        assert full, "an empty place shows"
        try:
            message["content"] = "changed"  # type: ignore[index]
        except TypeError:
            continue
        raise AssertionError("a reader changed a message")
    return bool(messages)


@law(71, "step", ResponseDone, PlaybackAcknowledged, ItemTruncated)
def the_wire_shows_what_history_remembers(step: Step) -> bool:
    """After each acknowledgement and cut, be it of an open response, item and message agree.

    An item of which nobody has said what was heard may show more than nothing.
    """
    looked = False
    endings = {event.response_id: event.response.output for event in step.tells(ResponseDone)}
    for trace in _touched(step):
        item_id = f"item_{trace.id}"
        remembered = spoken(step.state.history.message(item_id))
        cursor = step.state.playback.cursor(trace.id)
        cut = cursor is not None and cursor.cap_ms is not None and _may_speak(trace)
        if not remembered and not cut:
            continue
        ended = [item for item in endings.get(trace.id) or () if item.id == item_id]
        for item in (step.state.items.get(item_id), *ended):
            if item is None:
                continue
            looked = True
            assert shown(item) == remembered, f"{shown(item)!r} is not {remembered!r}"
    return looked


def _may_speak(trace: ResponseTrace) -> bool:
    """Words of it may be in history."""
    return trace.status != "failed" and trace.remembered and trace.in_conversation


@law(72, "step", ResponseCreated, ResponseDone)
def what_is_said_aside_is_not_remembered(step: Step) -> bool:
    """A response outside the conversation has no place in history and no item."""
    return _aside(step.life.traces.aside, step.state)


@law(72, "rest")
def nothing_said_aside_is_left(rest: Rest) -> bool:
    """Nor later."""
    return _aside(rest.life.traces.aside, rest.state)


def _aside(traces: list[ResponseTrace], state: Any) -> bool:
    for trace in traces:
        item_id = f"item_{trace.id}"
        assert item_id not in state.history, f"history holds {item_id}"
        assert item_id not in state.items, f"the conversation shows {item_id}"
    return bool(traces)


@law(73, "step", ResponseDone, PlaybackAcknowledged)
def unaligned_words_are_remembered_whole_or_not(step: Step) -> bool:
    """Under ``ack_only``, of a response whose text cannot be cut."""
    looked = False
    for trace in _touched(step):
        cursor = step.state.playback.cursor(trace.id)
        policy = step.state.config.playback_commit_policy
        if cursor is None or not cursor.text_requires_complete_audio:
            continue
        if "commit_all_on_done" in (policy, trace.policy):
            continue
        looked = True
        text = spoken(step.state.history.message(f"item_{trace.id}"))
        assert text in ("", trace.text), f"{text!r} is a part of {trace.text!r}"
    return looked
