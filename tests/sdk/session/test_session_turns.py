from __future__ import annotations

from typing import Any

from duplex_sdk.protocol.duplex import (
    ClearInput,
    Commit,
    CreateItem,
    CreateResponse,
    DuplexEvent,
    UpdateSession,
)
from duplex_sdk.session.inputs import StagesIdle
from duplex_sdk.testing.session_lab import SessionLab

RESPONSE_ORDER = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    "response.output_audio.delta",
    "response.output_audio_transcript.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
    "rate_limits.updated",
]


def of(lab: SessionLab, wire_type: str) -> list[dict[str, Any]]:
    return [r for r in (e.to_realtime() for e in lab.events) if r["type"] == wire_type]


def response_events(lab: SessionLab, response_id: str) -> list[str]:
    """Types of one response's events, repeats of a delta pair folded."""
    types: list[str] = []
    for event in lab.events:
        rendered = event.to_realtime()
        item = rendered.get("item") or {}
        owner = rendered.get("response_id") or item.get("id", "").removeprefix("item_")
        if owner == response_id and rendered["type"] not in types:
            types.append(rendered["type"])
    return types


def error_codes(lab: SessionLab) -> list[str]:
    return [rendered["error"]["code"] for rendered in of(lab, "error")]


def texts(lab: SessionLab) -> list[str]:
    return [r["transcript"] for r in of(lab, "response.output_audio_transcript.done")]


def one_turn(lab: SessionLab, *, ms: float = 600, wait_ms: float = 2600) -> None:
    lab.pause(100)
    lab.speak(ms)
    lab.pause(700)
    lab.run(wait_ms)


def manual_turn(lab: SessionLab, **commit: Any) -> None:
    lab.speak(600)
    lab.send(Commit(**{"response_create": True, **commit}))
    lab.run(2600)


def test_first_events_are_created_and_after_an_update_updated(make_lab: Any) -> None:
    assert make_lab(by_update=True).types() == ["session.created", "session.updated"]
    assert make_lab().types() == ["session.created"]


def test_a_detected_turn_is_committed_and_answered_in_canonical_order(vad_lab: SessionLab) -> None:
    one_turn(vad_lab)
    types = [t for t in vad_lab.types() if t not in ("response.listen", "overlap.decision")]
    start = types.index("input_audio_buffer.speech_started")
    assert types[start : start + 6] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "conversation.item.added",
        "input_audio_buffer.committed",
        "conversation.item.done",
        "response.created",
    ]
    created = of(vad_lab, "response.created")[0]["response_id"]
    kinds = response_events(vad_lab, created)
    assert [kind for kind in kinds if kind != "rate_limits.updated"] == RESPONSE_ORDER[:-1]
    assert types[-1] == "rate_limits.updated"


def test_the_utterance_has_one_item_id_from_its_first_sign_to_its_item(
    vad_lab: SessionLab,
) -> None:
    one_turn(vad_lab)
    started = of(vad_lab, "input_audio_buffer.speech_started")[0]["item_id"]
    assert of(vad_lab, "input_audio_buffer.speech_stopped")[0]["item_id"] == started
    assert of(vad_lab, "input_audio_buffer.committed")[0]["item_id"] == started
    assert of(vad_lab, "conversation.item.added")[0]["item"]["id"] == started


def test_every_delta_is_addressed_and_transcripts_add_up(vad_lab: SessionLab) -> None:
    one_turn(vad_lab)
    done = of(vad_lab, "response.done")[0]
    deltas = of(vad_lab, "response.output_audio_transcript.delta")
    audio = of(vad_lab, "response.output_audio.delta")
    assert len(audio) == len(deltas)
    for delta in audio + deltas:
        assert delta["response_id"] == done["response_id"]
        assert delta["item_id"] == f"item_{done['response_id']}"
        assert (delta["output_index"], delta["content_index"]) == (0, 0)
    assert "".join(d["delta"] for d in deltas) == "turn 1" == texts(vad_lab)[0]


def test_five_turns_in_a_row_are_all_answered_without_being_asked(vad_lab: SessionLab) -> None:
    for _ in range(5):
        one_turn(vad_lab)
    assert texts(vad_lab) == [f"turn {n}" for n in range(1, 6)]
    assert [d["response"]["status"] for d in of(vad_lab, "response.done")] == ["completed"] * 5


def test_five_client_commits_are_all_answered(manual_lab: SessionLab) -> None:
    for _ in range(5):
        manual_turn(manual_lab)
    assert texts(manual_lab) == [f"turn {n}" for n in range(1, 6)]
    assert error_codes(manual_lab) == []


def test_a_commit_without_a_wish_for_an_answer_waits_for_response_create(
    manual_lab: SessionLab,
) -> None:
    manual_turn(manual_lab, response_create=None)
    assert of(manual_lab, "response.created") == []
    manual_lab.send(CreateResponse(response={"metadata": {"client_event_id": "c7"}}))
    manual_lab.run(2600)
    created = of(manual_lab, "response.created")[0]
    assert created["response"]["metadata"]["client_event_id"] == "c7"
    assert created["response"]["metadata"]["duplex"]["epoch"] == 0
    assert texts(manual_lab) == ["turn 1"]


def test_two_commits_become_one_answer_that_heard_both(make_lab: Any) -> None:
    script = {"turns": "commit", "answers": [{"heard": True}]}
    lab = make_lab(script=script)
    for _ in range(2):
        lab.speak(500)
        lab.send(Commit())
    lab.send(CreateResponse())
    lab.run(2600)
    assert texts(lab)[0].startswith("heard 1000 ms, 16000 samples")


def test_no_syllable_before_the_detector_was_sure_is_lost(make_lab: Any) -> None:
    lab = make_lab(
        {"turn_detection": {"type": "server_vad"}}, script={"answers": [{"heard": True}]}
    )
    one_turn(lab, ms=1000)
    heard_ms = float(texts(lab)[0].split()[1])
    # All of the utterance, at most its padding before it, and the silence that ended it.
    assert 1000 + 500 <= heard_ms <= 1000 + 500 + 300 + 96 + 2 * 32


def test_a_text_item_is_answered_by_voice_without_any_audio(manual_lab: SessionLab) -> None:
    item = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}
    manual_lab.send(CreateItem(item=item), CreateResponse())
    manual_lab.run(2600)
    assert texts(manual_lab) == ["turn 1"]


def test_a_written_answer_has_a_text_part_and_no_audio(manual_lab: SessionLab) -> None:
    manual_lab.speak(500)
    manual_lab.send(Commit(), CreateResponse(response={"output_modalities": ["text"]}))
    manual_lab.run(2600)
    rid = of(manual_lab, "response.created")[0]["response_id"]
    assert response_events(manual_lab, rid) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
    ]
    done = of(manual_lab, "response.done")[0]["response"]
    assert done["output"][0]["content"] == [{"type": "output_text", "text": "turn 1"}]


def test_options_of_one_response_do_not_outlive_it(manual_lab: SessionLab) -> None:
    manual_lab.speak(500)
    manual_lab.send(Commit(), CreateResponse(response={"output_modalities": ["text"]}))
    manual_lab.run(2600)
    manual_turn(manual_lab)
    assert texts(manual_lab) == ["turn 2"]


def test_a_second_create_is_refused_and_harms_nothing(manual_lab: SessionLab) -> None:
    manual_lab.speak(500)
    manual_lab.send(Commit(), CreateResponse(), CreateResponse(event_id="second"))
    manual_lab.run(2600)
    error = of(manual_lab, "error")[0]["error"]
    assert error["code"] == "conversation_already_has_active_response"
    assert error["event_id"] == "second"
    assert [d["response"]["status"] for d in of(manual_lab, "response.done")] == ["completed"]


def test_create_with_nothing_to_answer_lets_the_assistant_speak_first(
    manual_lab: SessionLab,
) -> None:
    manual_lab.send(CreateResponse())
    manual_lab.run(2600)
    assert texts(manual_lab) == ["turn 1"]


def test_an_answer_of_silence_is_a_listen_and_a_completed_response(make_lab: Any) -> None:
    lab = make_lab(script={"turns": "commit", "answers": [None]})
    manual_turn(lab)
    listen = of(lab, "response.listen")[-1]
    done = of(lab, "response.done")[0]
    assert listen["response_id"] == done["response_id"]
    assert done["response"]["status"] == "completed"
    assert done["response"]["output"] == []
    assert done["response"]["metadata"]["duplex"]["decision"] == "listen"


def test_commit_of_nothing_is_refused_and_commit_of_silence_is_an_item_of_silence(
    manual_lab: SessionLab,
) -> None:
    manual_lab.send(Commit(event_id="empty"))
    assert error_codes(manual_lab) == ["input_audio_buffer_commit_empty"]
    manual_lab.pause(500)
    manual_lab.send(Commit(response_create=True))
    committed = of(manual_lab, "input_audio_buffer.committed")[0]
    assert committed["event"]["is_speech"] is False
    assert of(manual_lab, "response.listen")[-1]["response"]["metadata"]["reason"] == (
        "silence_commit"
    )
    assert of(manual_lab, "response.created") == []


def test_clear_forgets_uncommitted_input(make_lab: Any) -> None:
    lab = make_lab(script={"turns": "commit", "answers": [{"heard": True}]})
    lab.speak(900)
    lab.send(ClearInput())
    assert lab.session.held_input_bytes == 0
    lab.speak(300)
    lab.send(Commit(response_create=True))
    lab.run(2600)
    assert texts(lab)[0].startswith("heard 300 ms, 4800 samples")


def test_create_response_false_seals_and_does_not_answer(make_lab: Any) -> None:
    lab = make_lab({"turn_detection": {"type": "server_vad", "create_response": False}})
    one_turn(lab)
    assert len(of(lab, "input_audio_buffer.committed")) == 1
    assert of(lab, "response.created") == []
    lab.send(CreateResponse())
    lab.run(2600)
    assert texts(lab) == ["turn 1"]


def test_new_instructions_are_used_by_the_next_turn(make_lab: Any) -> None:
    script = {"turns": "commit", "answers": [{"instructions": True}]}
    lab = make_lab({"instructions": "A"}, script=script)
    manual_turn(lab)
    lab.send(UpdateSession(session={"instructions": "B"}))
    manual_turn(lab)
    assert texts(lab) == ["A", "B"]


def test_a_refused_update_changes_nothing_and_names_the_field(vad_lab: SessionLab) -> None:
    before = vad_lab.session.public_session
    vad_lab.send(UpdateSession(session={"turn_detection": {"threshold": 7}}, event_id="u1"))
    error = of(vad_lab, "error")[0]["error"]
    assert error["code"] == "unsupported_turn_detection"
    assert error["event_id"] == "u1"
    assert "turn_detection" in error["param"]
    assert vad_lab.session.public_session == before
    assert of(vad_lab, "session.updated") == []


def test_tuning_one_figure_of_the_detector_keeps_the_others(vad_lab: SessionLab) -> None:
    vad_lab.send(UpdateSession(session={"turn_detection": {"threshold": 0.8}}))
    detection = of(vad_lab, "session.updated")[0]["session"]["audio"]["input"]["turn_detection"]
    assert detection["type"] == "server_vad"
    assert detection["threshold"] == 0.8
    assert detection["silence_duration_ms"] == 500
    one_turn(vad_lab)
    assert texts(vad_lab) == ["turn 1"]
    vad_lab.send(UpdateSession(session={"turn_detection": None}))
    assert of(vad_lab, "session.updated")[1]["session"]["audio"]["input"]["turn_detection"] is None


def test_an_update_takes_effect_behind_the_audio_before_it(make_lab: Any) -> None:
    lab = make_lab(script={"turns": "commit", "answers": [{"heard": True}]})
    lab.speak(400)
    lab.send(UpdateSession(session={"sample_rate_hz": 8000}))
    lab.send(Commit(response_create=True))
    lab.run(2600)
    assert texts(lab)[0].startswith("heard 400 ms, 6400 samples")


def test_transcripts_are_told_once_per_item(vad_lab: SessionLab) -> None:
    one_turn(vad_lab)
    one_turn(vad_lab)
    completed = of(vad_lab, "conversation.item.input_audio_transcription.completed")
    assert [c["transcript"] for c in completed] == ["input 1", "input 2"]
    assert [c["item_id"] for c in completed] == [
        c["item_id"] for c in of(vad_lab, "input_audio_buffer.committed")
    ]
    assert completed[0]["usage"]["type"] == "duration"


def test_two_runs_of_one_script_are_equal_to_the_last_id(make_lab: Any) -> None:
    def run() -> list[DuplexEvent]:
        lab: SessionLab = make_lab({"turn_detection": {"type": "server_vad"}}, seed=7)
        one_turn(lab)
        return lab.events

    assert run() == run()


def test_old_news_of_idle_stages_ends_no_answer_that_came_since(manual_lab: SessionLab) -> None:
    manual_turn(manual_lab)
    before = manual_lab.session.accepted_seq
    manual_lab.speak(600)
    manual_lab.send(Commit(response_create=True))
    manual_lab.feed(StagesIdle(manual_lab.session.epoch, before))
    assert len(of(manual_lab, "response.done")) == 1
    manual_lab.run(2600)
    assert texts(manual_lab) == ["turn 1", "turn 2"]
