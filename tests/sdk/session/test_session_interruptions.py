from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearOutputAudio,
    Commit,
    CreateResponse,
    DeleteItem,
    RetrieveItem,
    TruncateItem,
)
from duplex_sdk.testing import CounterAudio
from duplex_sdk.testing.session_lab import SessionLab


def of(lab: SessionLab, wire_type: str) -> list[dict[str, Any]]:
    return [r for r in (e.to_realtime() for e in lab.events) if r["type"] == wire_type]


def statuses(lab: SessionLab) -> list[str]:
    return [d["response"]["status"] for d in of(lab, "response.done")]


def errors(lab: SessionLab) -> list[dict[str, Any]]:
    return [e["error"] for e in of(lab, "error")]


def speaking(lab: SessionLab, *, for_ms: float = 1000) -> str:
    """A response that has spoken for a while."""
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(200 + for_ms)
    return str(of(lab, "response.created")[-1]["response_id"])


def nothing_follows(lab: SessionLab, response_id: str) -> bool:
    types = [(e.to_realtime()["type"], getattr(e, "response_id", None)) for e in lab.events]
    done = types.index(("response.done", response_id))
    return not any(owner == response_id for _, owner in types[done + 1 :])


def retrieve(lab: SessionLab, item_id: str) -> dict[str, Any]:
    lab.send(RetrieveItem(item_id=item_id))
    item: dict[str, Any] = of(lab, "conversation.item.retrieved")[-1]["item"]
    return item


# cancel


def test_cancel_ends_the_response_in_its_own_step(manual_lab: SessionLab) -> None:
    rid = speaking(manual_lab)
    manual_lab.send(CancelResponse())
    done = of(manual_lab, "response.done")[0]
    assert done["response"]["status"] == "cancelled"
    assert done["response"]["status_details"] == {
        "type": "cancelled",
        "reason": "client_cancelled",
    }
    assert done["response"]["metadata"]["duplex"]["epoch"] == 0
    assert manual_lab.session.epoch == 1
    manual_lab.run(3000)
    assert nothing_follows(manual_lab, rid)


def test_cancel_ends_it_while_decode_plan_and_abort_hang(manual_lab: SessionLab) -> None:
    from duplex_sdk.session.effects import AbortRequests, DecodeAudio, PlanAppend

    rid = speaking(manual_lab)
    for effect in (DecodeAudio, PlanAppend, AbortRequests):
        manual_lab.faults[effect] = lambda _: None
    manual_lab.append(bytes(640))
    manual_lab.send(CancelResponse())
    assert statuses(manual_lab) == ["cancelled"]
    assert nothing_follows(manual_lab, rid)


def test_cancel_with_nothing_active_is_refused_and_changes_nothing(
    manual_lab: SessionLab,
) -> None:
    before = manual_lab.session.public_session
    manual_lab.send(CancelResponse(event_id="a"), CancelResponse(response_id="resp_no"))
    assert [e["code"] for e in errors(manual_lab)] == ["response_cancel_not_active"] * 2
    assert errors(manual_lab)[0]["event_id"] == "a"
    assert errors(manual_lab)[0]["message"].startswith("Cancellation failed")
    assert manual_lab.session.public_session == before


def test_cancel_of_another_or_a_done_response_harms_nothing(manual_lab: SessionLab) -> None:
    rid = speaking(manual_lab)
    manual_lab.send(CancelResponse(response_id="resp_other"))
    assert statuses(manual_lab) == []
    manual_lab.run(3000)
    manual_lab.send(CancelResponse(), CancelResponse(response_id=rid))
    assert statuses(manual_lab) == ["completed"]
    assert [e["code"] for e in errors(manual_lab)] == ["response_cancel_not_active"] * 3
    assert manual_lab.session.epoch == 0


@pytest.mark.parametrize("delay_ms", [0, 1, 7, 30])
def test_create_right_after_cancel_answers_anew(make_lab: Any, delay_ms: int) -> None:
    lab = make_lab(script={"turns": "commit", "answers": [{"delay_ms": delay_ms}]})
    first = speaking(lab)
    lab.send(CancelResponse(), CreateResponse())
    lab.run(3000)
    assert statuses(lab) == ["cancelled", "completed"]
    assert nothing_follows(lab, first)
    assert errors(lab) == []


def test_cancel_takes_the_answer_of_a_commit_that_still_waits(manual_lab: SessionLab) -> None:
    from duplex_sdk.session.effects import DecodeAudio

    manual_lab.faults[DecodeAudio] = lambda _: None
    manual_lab.append(bytes(640))
    manual_lab.send(Commit(response_create=True), CancelResponse())
    assert statuses(manual_lab) == ["cancelled"]


def test_the_model_hears_what_was_heard_of_it(manual_lab: SessionLab) -> None:
    speaking(manual_lab, for_ms=800)
    manual_lab.send(CancelResponse())
    assert manual_lab.aborted[0].epoch == 1
    assert 700 <= manual_lab.aborted[0].heard_ms <= 1000


# barge-in


def test_speech_over_an_answer_stops_it_and_becomes_the_next_turn(vad_lab: SessionLab) -> None:
    vad_lab.pause(100)
    vad_lab.speak(600)
    vad_lab.pause(700)
    vad_lab.run(600)
    vad_lab.speak(800)
    assert statuses(vad_lab) == ["cancelled"]
    details = of(vad_lab, "response.done")[0]["response"]["status_details"]
    assert details["reason"] == "turn_detected"
    vad_lab.pause(700)
    vad_lab.run(2600)
    assert statuses(vad_lab) == ["cancelled", "completed"]
    assert len(of(vad_lab, "input_audio_buffer.committed")) == 2


def test_the_sign_of_speech_and_the_decision_precede_the_cancelled_ending(
    vad_lab: SessionLab,
) -> None:
    vad_lab.pause(100)
    vad_lab.speak(600)
    vad_lab.pause(700)
    vad_lab.run(600)
    seen = len(vad_lab.events)
    vad_lab.speak(300)
    types = vad_lab.types(seen)
    started = types.index("input_audio_buffer.speech_started")
    ending = types.index("response.output_audio.done")
    assert types[started + 1] == "overlap.decision"
    assert started + 2 == ending
    assert [e.epoch for e in vad_lab.events[seen:]][ending] == 1


def test_barge_in_command_stops_all_and_drops_input(manual_lab: SessionLab) -> None:
    rid = speaking(manual_lab)
    manual_lab.speak(300)
    manual_lab.send(BargeIn())
    assert statuses(manual_lab) == ["cancelled"]
    assert of(manual_lab, "response.done")[0]["response"]["status_details"]["reason"] == "barge_in"
    assert manual_lab.types()[-1] == "input_audio_buffer.cleared"
    assert manual_lab.session.held_input_bytes == 0
    manual_lab.send(BargeIn())
    assert manual_lab.session.epoch == 2
    assert nothing_follows(manual_lab, rid)


def test_input_cancel_aborts_a_commit_that_waits(manual_lab: SessionLab) -> None:
    from duplex_sdk.session.effects import DecodeAudio

    manual_lab.faults[DecodeAudio] = lambda _: None
    manual_lab.append(bytes(640))
    manual_lab.send(Commit(event_id="c"), CancelInput())
    assert errors(manual_lab)[0]["code"] == "commit_aborted"
    assert errors(manual_lab)[0]["event_id"] == "c"
    assert manual_lab.session.pending_turns == 0


def test_clear_of_output_stops_what_generates_and_is_always_acknowledged(
    manual_lab: SessionLab,
) -> None:
    manual_lab.send(ClearOutputAudio())
    assert of(manual_lab, "output_audio_buffer.cleared")[0]["response_id"] is None
    assert manual_lab.session.epoch == 0
    rid = speaking(manual_lab)
    manual_lab.send(ClearOutputAudio())
    assert of(manual_lab, "output_audio_buffer.cleared")[1]["response_id"] == rid
    assert statuses(manual_lab) == ["cancelled"]
    assert errors(manual_lab) == []


# sustained speech


def sustained(make_lab: Any, **script: Any) -> SessionLab:
    session = {
        "turn_detection": {"type": "server_vad"},
        "overlap_policy": "barge_in_on_sustained_speech",
        "overlap_short_ack_ms": 400,
        "overlap_barge_in_ms": 800,
    }
    from duplex_sdk.plugin import load_duplex_plugin
    from duplex_sdk.testing.scripted import plugin as scripted

    plugin = load_duplex_plugin(scripted, {"script": script})
    known = plugin.capabilities

    def capabilities(*, max_sessions: int) -> Any:
        from dataclasses import replace

        return replace(
            known(max_sessions=max_sessions), interrupt_policy="barge_in_on_sustained_speech"
        )

    plugin.capabilities = capabilities  # type: ignore[method-assign]
    lab = SessionLab(plugin, session)
    lab.pause(100)
    lab.speak(600)
    lab.pause(700)
    lab.run(400)
    return lab


def test_mm_hmm_does_not_stop_the_answer_and_leaves_no_trace(make_lab: Any) -> None:
    lab = sustained(make_lab, answers=[{"ms": 5000}])
    seen = len(lab.events)
    lab.speak(200)
    lab.pause(800)
    assert statuses(lab) == []
    assert not [t for t in lab.types(seen) if t.startswith(("input_audio", "conversation"))]
    lab.run(6000)
    assert statuses(lab) == ["completed"]
    assert len(lab.session.state.items) == len(lab.session.state.history.messages()) == 2
    # Of all the sound, the silence is kept that came after the detector's 500 ms (in pieces of 20).
    silence_ms = 800 - 520
    assert lab.session.held_input_bytes == lab.session.preroll_bytes == silence_ms * 16 * 4


def test_real_speech_stops_the_answer_and_the_sign_comes_before_the_decision(
    make_lab: Any,
) -> None:
    lab = sustained(make_lab, answers=[{"ms": 5000}, {"heard": True}])
    seen = len(lab.events)
    lab.speak(1500)
    assert statuses(lab) == ["cancelled"]
    types = lab.types(seen)
    started = types.index("input_audio_buffer.speech_started")
    assert types[started + 1] == "overlap.decision"
    decisions = of(lab, "overlap.decision")
    assert "long_overlap_speech" in {d["reason"] for d in decisions}
    lab.pause(700)
    lab.run(3000)
    heard = of(lab, "response.output_audio_transcript.done")[-1]["transcript"]
    assert float(heard.split()[1]) >= 1500


def test_speech_between_is_kept_and_answered_after_the_answer(make_lab: Any) -> None:
    lab = sustained(make_lab, answers=[{"ms": 3000}, {"heard": True}])
    lab.speak(600)
    lab.pause(700)
    committed = of(lab, "input_audio_buffer.committed")
    assert committed[-1]["event"]["response_create_deferred"] is True
    lab.run(6000)
    assert statuses(lab) == ["completed", "completed"]
    heard = of(lab, "response.output_audio_transcript.done")[-1]["transcript"]
    assert float(heard.split()[1]) >= 600


def test_a_start_that_was_kept_back_is_told_when_the_answer_has_played(make_lab: Any) -> None:
    lab = sustained(make_lab, answers=[{"ms": 1500}])
    seen = len(lab.events)
    lab.speak(300)
    assert "input_audio_buffer.speech_started" not in lab.types(seen)
    # The microphone falls silent within a word: nothing but time goes on.
    lab.run(3000)
    types = lab.types(seen)
    assert types.count("input_audio_buffer.speech_started") == 1
    assert types.index("response.done") < types.index("input_audio_buffer.speech_started")


# truncate and acknowledge


def ten_characters(make_lab: Any, **session: Any) -> tuple[SessionLab, str]:
    answer = {"text": "abcdefghij", "ms": 10_000, "words": False, "delay_ms": 0}
    lab = make_lab(
        session, script={"turns": "commit", "pace": "burst", "answers": [answer, {"ms": 1000}]}
    )
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(200)
    assert statuses(lab) == ["completed"]
    return lab, f"item_{of(lab, 'response.created')[0]['response_id']}"


def test_one_truncation_cuts_once_and_never_grows_back(make_lab: Any) -> None:
    lab, item = ten_characters(make_lab)
    for position in (4000, 4000, 8000):
        lab.send(TruncateItem(item_id=item, audio_end_ms=position))
        assert retrieve(lab, item)["content"][0]["transcript"] == "abcd"
    assert len(of(lab, "conversation.item.truncated")) == 3
    assert errors(lab) == []


def test_a_truncation_past_the_end_is_clamped_and_the_next_turn_speaks(make_lab: Any) -> None:
    lab, item = ten_characters(make_lab)
    lab.send(TruncateItem(item_id=item, audio_end_ms=99_999))
    assert of(lab, "conversation.item.truncated")[0]["audio_end_ms"] == 10_000
    assert retrieve(lab, item)["content"][0]["transcript"] == "abcdefghij"
    speaking(lab)
    lab.run(2000)
    assert statuses(lab)[-1] == "completed"


def test_truncation_works_after_the_cancelled_ending(manual_lab: SessionLab) -> None:
    rid = speaking(manual_lab)
    manual_lab.send(CancelResponse(), TruncateItem(item_id=f"item_{rid}", audio_end_ms=0))
    item = retrieve(manual_lab, f"item_{rid}")
    assert item["content"][0]["transcript"] == ""
    assert item["status"] == "incomplete"


def test_truncation_to_nothing_leaves_an_item_with_no_words(make_lab: Any) -> None:
    lab, item = ten_characters(make_lab)
    lab.send(TruncateItem(item_id=item, audio_end_ms=0))
    assert retrieve(lab, item)["content"][0]["transcript"] == ""


def test_a_user_item_cannot_be_truncated(manual_lab: SessionLab) -> None:
    speaking(manual_lab)
    user = of(manual_lab, "input_audio_buffer.committed")[0]["item_id"]
    manual_lab.send(
        TruncateItem(item_id=user, audio_end_ms=5),
        TruncateItem(item_id="item_none", audio_end_ms=5),
    )
    assert [e["code"] for e in errors(manual_lab)] == [
        "bad_event",
        "item_truncate_invalid_item_id",
    ]


def test_an_ack_moves_forward_only_and_not_past_what_was_sent(make_lab: Any) -> None:
    lab, item = ten_characters(make_lab, playback_commit_policy="ack_only")
    for played in (3000, 1000, 7000):
        lab.send(AckPlayback(played_ms=played, item_id=item))
    told = [e["event"]["played_ms"] for e in of(lab, "playback.acknowledged")]
    assert told == [3000, 3000, 7000]
    lab.send(AckPlayback(played_ms=99_000, item_id=item))
    assert of(lab, "playback.acknowledged")[-1]["event"]["played_ms"] == 10_000
    assert errors(lab) == []


@pytest.mark.parametrize("by_ack", [True, False])
def test_a_cut_counts_as_heard_where_only_heard_words_are_remembered(
    make_lab: Any, by_ack: bool
) -> None:
    lab, item = ten_characters(make_lab, playback_commit_policy="ack_only")
    if by_ack:
        lab.send(AckPlayback(played_ms=4000, item_id=item, truncate=True))
    else:
        lab.send(TruncateItem(item_id=item, audio_end_ms=4000))
    said = retrieve(lab, item)["content"][0]["transcript"]
    assert len(said) == 4
    message = lab.session.state.history.message(item)
    assert message is not None
    assert [part["text"] for part in message["content"]] == [said]
    assert of(lab, "playback.acknowledged")[-1]["event"]["history_committed"] is True
    lab.send(AckPlayback(played_ms=10_000, item_id=item))
    assert retrieve(lab, item)["content"][0]["transcript"] == said


def test_acks_of_unknown_or_settled_responses_are_refused_and_the_session_goes_on(
    make_lab: Any,
) -> None:
    lab, item = ten_characters(make_lab)
    lab.send(
        AckPlayback(played_ms=10, response_id="resp_none"),
        AckPlayback(played_ms=10, response_id="resp_none", item_id=item),
        AckPlayback(played_ms=10_000, item_id=item),
    )
    assert [e["code"] for e in errors(lab)] == [
        "playback_item_not_found",
        "playback_item_mismatch",
    ]
    speaking(lab)
    lab.send(AckPlayback(played_ms=10_000, item_id=item))
    assert errors(lab)[-1]["code"] == "playback_ack_too_late"
    lab.run(3000)
    assert statuses(lab)[-1] == "completed"


def test_the_item_of_the_active_response_cannot_be_deleted(manual_lab: SessionLab) -> None:
    rid = speaking(manual_lab)
    manual_lab.send(DeleteItem(item_id=f"item_{rid}"))
    assert errors(manual_lab)[0]["code"] == "bad_event"
    manual_lab.run(3000)
    manual_lab.send(DeleteItem(item_id=f"item_{rid}"), DeleteItem(item_id=f"item_{rid}"))
    assert of(manual_lab, "conversation.item.deleted")[0]["item_id"] == f"item_{rid}"
    assert errors(manual_lab)[-1]["code"] == "item_delete_invalid_item_id"


def test_audio_that_went_out_is_whole_and_in_order(manual_lab: SessionLab) -> None:
    speaking(manual_lab)
    manual_lab.run(3000)
    pcm = b"".join(e.delta for e in manual_lab.events if hasattr(e, "sample_rate_hz"))
    blocks = CounterAudio(24_000).read(pcm)
    assert [block.index for block in blocks] == list(range(100))
