from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
import pytest
from duplex_sdk.protocol.duplex import AudioTextMark
from duplex_sdk.session.history import ConversationHistory, HistoryLimits
from duplex_sdk.session.message_log import ENTRY_COST
from duplex_sdk.session.playback import PlaybackCommitPolicy, PlaybackCursor
from duplex_sdk.session.refusal import RefusalError
from duplex_sdk.session.spoken_text import SpokenText, done_text
from hypothesis import given
from hypothesis import strategies as st

TEXT = "abcdefghij"
ALL: PlaybackCommitPolicy = "commit_all_on_done"
ACK: PlaybackCommitPolicy = "ack_only"


def cursor(sent_ms: float, committed_ms: float = 0.0, **fields: Any) -> PlaybackCursor:
    return PlaybackCursor(
        generated_ms=sent_ms,
        sent_ms=sent_ms,
        played_ms=committed_ms,
        committed_ms=committed_ms,
        acked=committed_ms > 0,
        **fields,
    )


def texts(history: ConversationHistory) -> list[str]:
    return [
        "".join(part.get("text") or part.get("transcript") or "" for part in message["content"])
        for message in history.messages()
    ]


def spoken_response(
    policy: PlaybackCommitPolicy,
    playback: PlaybackCursor,
    *,
    status: Literal["completed", "incomplete", "cancelled", "failed"] = "completed",
    marks: tuple[AudioTextMark, ...] = (),
) -> ConversationHistory:
    history = ConversationHistory()
    history.open_response("resp_a")
    spoken = SpokenText(TEXT, marks, playback.audio_ms)
    history.end_response("resp_a", spoken, playback, policy, status)
    return history


@pytest.mark.parametrize(
    ("playback", "by_all", "by_ack"),
    [
        pytest.param(
            cursor(1000, 1000, text_requires_complete_audio=True, audio_complete=True),
            TEXT,
            TEXT,
            id="unaligned-heard-whole",
        ),
        pytest.param(
            cursor(1000, 999, text_requires_complete_audio=True, audio_complete=True),
            TEXT,
            "",
            id="unaligned-heard-in-part",
        ),
        pytest.param(
            cursor(1000, 1000, text_requires_complete_audio=True),
            TEXT,
            "",
            id="unaligned-audio-missing",
        ),
        pytest.param(
            cursor(0, 0, text_requires_complete_audio=True, audio_complete=True),
            TEXT,
            "",
            id="unaligned-no-audio",
        ),
        pytest.param(cursor(0), TEXT, TEXT, id="text-only"),
        pytest.param(cursor(1000, 1000), TEXT, TEXT, id="heard-whole"),
        pytest.param(cursor(1000, 0), TEXT, "", id="nothing-acked"),
        pytest.param(cursor(1000, 400), "abcd", "abcd", id="acked-in-part"),
    ],
)
def test_what_a_completed_response_leaves(
    playback: PlaybackCursor, by_all: str, by_ack: str
) -> None:
    spoken = SpokenText(TEXT, (), playback.audio_ms)
    assert done_text(spoken, playback, ALL) == by_all
    assert done_text(spoken, playback, ACK) == by_ack


def test_a_response_that_nobody_heard_waits_and_then_grows_with_the_acks() -> None:
    playback = cursor(1000)
    history = spoken_response(ACK, playback)
    assert texts(history) == []
    playback.acknowledge(300)
    grown = history.acknowledge("resp_a", playback, ACK)
    assert grown is not None
    assert (grown.text, grown.committed) == ("abc", True)
    playback.acknowledge(1000)
    history.acknowledge("resp_a", playback, ACK)
    assert texts(history) == [TEXT]


def test_an_ack_does_not_shorten_what_commit_all_has_kept() -> None:
    playback = cursor(1000)
    history = spoken_response(ALL, playback)
    playback.acknowledge(300)
    history.acknowledge("resp_a", playback, ALL)
    assert texts(history) == [TEXT]


def test_an_ack_of_an_open_response_keeps_the_words_heard_so_far() -> None:
    history = ConversationHistory()
    history.open_response("resp_a")
    playback = cursor(1000, 600)
    heard = history.acknowledge("resp_a", playback, ALL, live=SpokenText(TEXT, (), 1000))
    assert heard is not None
    assert (heard.text, heard.committed) == ("abcdef", True)


def test_one_cut_is_one_cut() -> None:
    playback = cursor(10_000)
    history = spoken_response(ALL, playback)
    shown = []
    for position in (4000, 4000, 8000):
        cut = history.truncate("item_resp_a", position)
        assert cut is not None
        shown.append(cut.text)
    assert shown == ["abcd", "abcd", "abcd"]
    assert texts(history) == ["abcd"]


def test_truncated_text_stays_away_whatever_is_acked_later() -> None:
    playback = cursor(1000)
    history = spoken_response(ACK, playback)
    history.truncate("item_resp_a", 400)
    playback.acknowledge(1000)
    acked = history.acknowledge("resp_a", playback, ACK)
    assert acked is not None
    assert acked.text == "abcd"


def test_truncation_to_nothing_takes_the_message_out_and_keeps_its_place() -> None:
    history = spoken_response(ALL, cursor(1000))
    cut = history.truncate("item_resp_a", 0)
    assert cut is not None
    assert (cut.text, cut.committed) == ("", False)
    assert texts(history) == []


def test_truncation_of_an_open_response_applies_at_its_end() -> None:
    history = ConversationHistory()
    history.open_response("resp_a")
    history.truncate("item_resp_a", 400)
    history.end_response("resp_a", SpokenText(TEXT, (), 1000), cursor(1000), ALL, "completed")
    assert texts(history) == ["abcd"]


def test_truncation_before_the_item_exists_is_remembered() -> None:
    history = ConversationHistory()
    assert history.truncate("item_resp_a", 700) is None
    assert history.truncate("item_resp_a", 300) is None
    history.open_response("resp_a")
    history.end_response("resp_a", SpokenText(TEXT, (), 1000), cursor(1000), ALL, "completed")
    assert texts(history) == ["abc"]


def test_a_cancelled_response_keeps_what_was_sent_to_a_client_that_never_acks() -> None:
    playback = cursor(1000)
    playback.generated_ms = 2000
    history = spoken_response(ALL, playback, status="cancelled")
    assert texts(history) == ["abcde"]


def test_a_cancelled_response_keeps_nothing_unheard_under_ack_only() -> None:
    assert texts(spoken_response(ACK, cursor(1000), status="cancelled")) == []


def test_an_ack_after_the_cancel_decides_anew() -> None:
    playback = cursor(1000)
    history = spoken_response(ALL, playback, status="cancelled")
    assert texts(history) == [TEXT]
    playback.acknowledge(200)
    history.acknowledge("resp_a", playback, ALL)
    assert texts(history) == ["ab"]
    playback.acknowledge(500)
    history.acknowledge("resp_a", playback, ALL)
    assert texts(history) == ["abcde"]


def test_audio_taken_back_cuts_a_cancelled_response_once_more() -> None:
    playback = cursor(1000)
    history = spoken_response(ALL, playback, status="cancelled")
    playback.sent_ms = 300
    cut = history.cut_at_heard("resp_a", playback, ALL)
    assert cut is not None
    assert cut.text == "abc"


def test_a_written_response_that_is_cancelled_was_seen() -> None:
    history = ConversationHistory()
    history.open_response("resp_a")
    spoken = SpokenText(TEXT, written=True)
    history.end_response("resp_a", spoken, cursor(0), ALL, "cancelled")
    assert texts(history) == [TEXT]


def test_a_spoken_response_cancelled_before_its_audio_was_not_heard() -> None:
    assert texts(spoken_response(ALL, cursor(0), status="cancelled")) == []


def test_a_failed_response_enters_nothing_but_its_item_can_be_cut() -> None:
    history = spoken_response(ALL, cursor(1000), status="failed")
    assert texts(history) == []
    cut = history.truncate("item_resp_a", 400)
    assert cut is not None
    assert (cut.text, cut.committed) == ("abcd", False)
    assert texts(history) == []


def test_text_of_a_response_that_fails_after_all_is_taken_out() -> None:
    history = spoken_response(ALL, cursor(1000))
    history.discard_response("resp_a")
    assert texts(history) == []


def test_a_response_outside_the_conversation_never_enters() -> None:
    history = ConversationHistory()
    spoken = SpokenText(TEXT, (), 1000)
    assert history.end_response("resp_x", spoken, cursor(1000), ALL, "completed") is None
    assert len(history) == 0


def test_marks_place_the_cut() -> None:
    marks = (AudioTextMark(8, 200), AudioTextMark(9, 900))
    playback = cursor(1000, 200)
    history = spoken_response(ACK, playback, marks=marks)
    assert texts(history) == ["abcdefgh"]


def test_order_is_that_of_commits_and_openings_whenever_text_comes() -> None:
    history = ConversationHistory()
    playback = cursor(1000)
    history.add_user_audio("item_u1", transcript="one")
    history.open_response("resp_a")
    history.add_user_audio("item_u2", transcript="two")
    history.end_response("resp_a", SpokenText(TEXT, (), 1000), playback, ACK, "completed")
    assert texts(history) == ["one", "two"]
    playback.acknowledge(1000)
    history.acknowledge("resp_a", playback, ACK)
    assert texts(history) == ["one", TEXT, "two"]


def test_deleting_one_of_two_equal_items_leaves_the_other() -> None:
    history = ConversationHistory()
    part = {"type": "text", "text": "same"}
    for item_id in ("item_1", "item_2", "item_3"):
        history.add_message(item_id, "user", [part])
    assert history.delete("item_2")
    assert "item_1" in history
    assert "item_2" not in history
    assert "item_3" in history
    assert history.unanswered == ("item_1", "item_3")


def test_deleting_a_reserved_place_reports_that_no_message_went() -> None:
    history = ConversationHistory()
    history.open_response("resp_a")
    assert not history.delete("item_resp_a")
    spoken = SpokenText(TEXT, (), 1000)
    assert history.end_response("resp_a", spoken, cursor(1000), ALL, "completed") is None
    assert len(history) == 0


def test_items_go_where_they_are_told() -> None:
    history = ConversationHistory()
    history.add_message("item_1", "user", [{"type": "text", "text": "1"}])
    history.add_message("item_3", "user", [{"type": "text", "text": "3"}])
    history.add_message("item_0", "system", [{"type": "text", "text": "0"}], after="root")
    history.add_message("item_2", "user", [{"type": "text", "text": "2"}], after="item_1")
    assert texts(history) == ["0", "1", "2", "3"]
    with pytest.raises(KeyError):
        history.add_message("item_9", "user", [{"type": "text", "text": "9"}], after="nowhere")
    assert "item_9" not in history


def test_a_reserved_place_is_filled_where_it_stands() -> None:
    history = ConversationHistory()
    history.reserve("item_u1")
    history.add_user_audio("item_u2", transcript="two")
    assert texts(history) == ["two"]
    history.add_user_audio("item_u1", transcript="one")
    assert texts(history) == ["one", "two"]


def test_a_transcript_that_comes_late_is_added_to_its_message() -> None:
    history = ConversationHistory()
    history.add_user_audio("item_u1")
    history.set_transcript("item_u1", "hello")
    assert history.message("item_u1") == {
        "role": "user",
        "content": (
            {
                "type": "audio_url",
                "audio_url": {"url": "duplex:input-audio"},
                "transcript": "hello",
            },
        ),
    }


def test_only_written_user_items_wait_for_an_answer() -> None:
    history = ConversationHistory()
    history.add_message("item_s", "system", [{"type": "text", "text": "s"}])
    history.add_message("item_u", "user", [{"type": "text", "text": "u"}])
    history.add_user_audio("item_a")
    assert history.unanswered == ("item_u",)
    history.mark_answered()
    assert not history.unanswered


def test_the_view_is_made_once_per_change_and_refuses_to_change() -> None:
    history = ConversationHistory()
    history.add_message("item_1", "user", [{"type": "text", "text": "1"}])
    view = history.messages()
    assert history.messages() is view
    with pytest.raises(TypeError):
        view[0]["role"] = "system"  # type: ignore[index]
    with pytest.raises(TypeError):
        view[0]["content"][0].update(text="2")
    history.add_call("item_2", call_id="c", name="f", arguments="{}")
    assert history.messages() is not view
    assert len(view) == 1


def test_the_view_can_be_encoded() -> None:
    history = ConversationHistory()
    history.add_call("item_1", call_id="c", name="f", arguments="{}")
    history.add_call_output("item_2", call_id="c", output="4")
    view = history.messages()
    assert json.loads(json.dumps(view)) == msgspec.msgpack.decode(msgspec.msgpack.encode(view))


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def test_one_image_too_many_is_refused_and_leaves_no_trace() -> None:
    history = ConversationHistory(HistoryLimits(images=2))
    history.add_message("item_1", "user", [image("a"), image("b")])
    with pytest.raises(RefusalError) as refusal:
        history.add_message("item_2", "user", [image("c")])
    assert refusal.value.code == "input_backpressure"
    assert len(history) == 1
    history.delete("item_1")
    history.add_message("item_2", "user", [image("c")])


def test_images_are_bounded_by_their_characters() -> None:
    history = ConversationHistory(HistoryLimits(image_characters=10))
    history.add_message("item_1", "user", [image("x" * 10)])
    with pytest.raises(RefusalError):
        history.add_message("item_2", "user", [image("x")])


def test_the_oldest_are_forgotten_beyond_the_budget() -> None:
    history = ConversationHistory(HistoryLimits(characters=3 * (ENTRY_COST + 10)))
    for n in range(8):
        history.add_message(f"item_{n}", "user", [{"type": "text", "text": str(n) * 10}])
    assert texts(history) == ["5" * 10, "6" * 10, "7" * 10]
    assert history.unanswered == ("item_5", "item_6", "item_7")


def test_speech_without_words_is_bounded_too() -> None:
    history = ConversationHistory(HistoryLimits(characters=10 * ENTRY_COST))
    for n in range(100):
        history.add_user_audio(f"item_{n}")
    assert len(history) == 10


def test_what_an_open_response_says_is_not_forgotten() -> None:
    history = ConversationHistory(HistoryLimits(characters=2 * ENTRY_COST))
    history.open_response("resp_a")
    for n in range(5):
        history.add_user_audio(f"item_{n}")
    said = SpokenText(TEXT, (), 1000)
    assert history.end_response("resp_a", said, cursor(1000), ALL, "completed") is not None


def test_old_responses_lose_their_alignment_and_no_text_comes_back() -> None:
    history = ConversationHistory(HistoryLimits(responses=2))
    marks = (AudioTextMark(10, 100),)
    for n in range(3):
        history.open_response(f"resp_{n}")
        spoken = SpokenText(TEXT, marks, 1000)
        history.end_response(f"resp_{n}", spoken, cursor(1000), ALL, "completed")
    cut = history.truncate("item_resp_0", 400)
    assert cut is not None
    assert cut.text == "abcd"
    kept = history.truncate("item_resp_2", 400)
    assert kept is not None
    assert kept.text == TEXT


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["ack", "truncate"]), st.integers(-100, 2000)), max_size=25
    ),
    policy=st.sampled_from([ALL, ACK]),
    status=st.sampled_from(["completed", "cancelled"]),
    marks=st.lists(st.tuples(st.integers(0, 10), st.integers(0, 1000)), max_size=4),
)
def test_hard_cuts_hold_and_history_is_always_a_prefix(
    steps: list[tuple[str, int]],
    policy: PlaybackCommitPolicy,
    status: Literal["completed", "cancelled"],
    marks: list[tuple[int, int]],
) -> None:
    playback = cursor(1000)
    placed = tuple(AudioTextMark(chars, ms) for chars, ms in marks)
    history = spoken_response(policy, playback, status=status, marks=placed)
    spoken = SpokenText(TEXT, placed, 1000)
    cap = None
    for kind, position in steps:
        if kind == "ack":
            playback.acknowledge(position)
            said = history.acknowledge("resp_a", playback, policy)
        else:
            playback.truncate_committed(position)
            said = history.truncate("item_resp_a", position)
            cap = max(0, position) if cap is None else min(cap, max(0, position))
        assert said is not None
        assert TEXT.startswith(said.text)
        assert texts(history) == ([said.text] if said.text else [])
        if cap is not None:
            assert len(said.text) <= len(spoken.prefix(cap))
        if policy == ACK and kind == "ack" and cap is None:
            assert said.text == (
                TEXT if playback.complete else spoken.prefix(playback.committed_ms)
            )


@given(first=st.floats(0, 1000), second=st.floats(0, 1000))
def test_a_later_position_never_holds_less_text(first: float, second: float) -> None:
    spoken = SpokenText("one two  three", (AudioTextMark(5, 300),), 1000)
    early, late = sorted((first, second))
    assert spoken.prefix(late).startswith(spoken.prefix(early))
    assert spoken.prefix(0) == ""
    assert spoken.prefix(1000) == "one two  three"
