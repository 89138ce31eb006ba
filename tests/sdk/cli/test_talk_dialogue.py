from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.cli.talk_dialogue import Dialogue
from duplex_sdk.clients import ConnectionLost, ConnectionResumed
from duplex_sdk.protocol.duplex import AudioDelta, DuplexEvent, decode_event


def event(kind: str, **fields: Any) -> DuplexEvent:
    return decode_event({"type": kind, "event_id": "e", **fields})


def response(kind: str, identity: str, status: str) -> DuplexEvent:
    body = {"id": identity, "status": status, "output": [], "output_modalities": ["audio"]}
    return event(kind, response_id=identity, response=body)


def audio(identity: str) -> AudioDelta:
    return AudioDelta(response_id=identity, item_id="i", delta=b"\0\0", format="pcm16")


def words(identity: str, text: str) -> DuplexEvent:
    return event(
        "response.output_audio_transcript.delta",
        response_id=identity,
        item_id=f"item_{identity}",
        output_index=0,
        content_index=0,
        delta=text,
    )


def heard(item_id: str, text: str, *, final: bool) -> DuplexEvent:
    kind = "conversation.item.input_audio_transcription."
    if final:
        return event(
            kind + "completed", item_id=item_id, content_index=0, transcript=text, usage={}
        )
    return event(kind + "delta", item_id=item_id, content_index=0, delta=text)


def test_final_transcript_takes_the_place_of_its_pieces() -> None:
    dialogue = Dialogue()
    dialogue.feed(heard("i", "what is ", final=False), 0)
    dialogue.feed(heard("i", "seventy", final=False), 0)
    assert dialogue.said_by("you") == ("what is seventy",)
    dialogue.feed(heard("i", "What is seven?", final=True), 0)
    assert dialogue.said_by("you") == ("What is seven?",)
    assert dialogue.lines[0].final


def test_answer_time_runs_from_the_end_of_speech_to_the_first_audio() -> None:
    dialogue = Dialogue()
    dialogue.end_of_speech = 10.0
    dialogue.feed(response("response.created", "r", "in_progress"), 10.3)
    dialogue.feed(words("r", "Twelve."), 10.35)
    dialogue.feed(audio("r"), 10.4)
    dialogue.feed(audio("r"), 10.9)
    assert list(dialogue.latencies_ms) == pytest.approx([400])
    assert dialogue.said_by("model") == ("Twelve.",)


def test_unasked_answer_has_no_answer_time() -> None:
    dialogue = Dialogue()
    dialogue.feed(response("response.created", "r", "in_progress"), 1)
    dialogue.feed(audio("r"), 1)
    assert dialogue.latencies_ms == ()


def test_answer_that_falls_into_speech_has_no_answer_time() -> None:
    dialogue = Dialogue()
    dialogue.end_of_speech = 9.98
    dialogue.feed(response("response.created", "r", "in_progress"), 9.9)
    dialogue.feed(audio("r"), 10.0)
    assert dialogue.latencies_ms == ()
    dialogue.end_of_speech = 12.0
    dialogue.feed(response("response.created", "s", "in_progress"), 12.3)
    dialogue.feed(audio("s"), 12.4)
    assert list(dialogue.latencies_ms) == pytest.approx([400])


def test_answer_is_in_the_making_until_it_is_done() -> None:
    dialogue = Dialogue()
    dialogue.feed(response("response.created", "r", "in_progress"), 0)
    assert dialogue.answering
    dialogue.feed(response("response.done", "r", "completed"), 0)
    assert not dialogue.answering


@pytest.mark.parametrize(
    "end",
    [
        response("response.done", "r", "cancelled"),
        event("output_audio_buffer.cleared", response_id="r"),
    ],
)
def test_answer_cut_short_is_shown_as_interrupted(end: DuplexEvent) -> None:
    dialogue = Dialogue()
    dialogue.feed(response("response.created", "r", "in_progress"), 0)
    dialogue.feed(end, 0)
    assert dialogue.lines[0].interrupted


def test_errors_stand_among_the_lines() -> None:
    dialogue = Dialogue()
    error = {"type": "server_error", "code": "engine_error", "message": "it broke"}
    dialogue.feed(event("error", error=error), 0)
    assert dialogue.said_by("error") == ("engine_error: it broke",)


def test_lost_connection_and_the_way_back_stand_among_the_lines() -> None:
    dialogue = Dialogue()
    dialogue.feed(ConnectionLost(reason="the cable broke"), 0)
    dialogue.feed(ConnectionResumed(outage_s=1.52, attempts=3, attachment_generation=2), 2)
    assert dialogue.said_by("error") == ("the cable broke; coming back", "back after 1.5 s")
