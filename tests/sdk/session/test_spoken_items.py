"""Items of recorded speech that a client puts into the conversation."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import (
    BargeIn,
    Commit,
    CreateItem,
    CreateResponse,
    Heartbeat,
    RetrieveItem,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab, tone

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()


class Early(Scripted):
    """Hears units before their commit."""

    early_input = True


def opened(kind: type[Scripted] = Scripted, **session: Any) -> SessionLab:
    return SessionLab(kind({"script": {"turns": "commit"}}), session)


def sound(ms: int, level: float = 0.3, **fields: Any) -> dict[str, Any]:
    audio = base64.b64encode(tone(ms, level=level)).decode()
    return {"type": "input_audio", "audio": audio, **fields}


def create(*content: dict[str, Any], event_id: str = "c1", **fields: Any) -> CreateItem:
    item = {"id": "mine", "role": "user", "content": list(content)}
    return CreateItem(item=item, event_id=event_id, **fields)


def test_speech_becomes_a_committed_item_and_nothing_answers_it() -> None:
    lab = opened()
    seen = len(lab.events)
    lab.send(create(sound(300)))
    lab.run(5000)
    assert lab.types(seen) == [
        "conversation.item.added",
        "input_audio_buffer.committed",
        "conversation.item.done",
    ]
    assert {event.to_realtime().get("item_id", "mine") for event in lab.events[seen:]} == {"mine"}
    assert lab.session.state.history.unanswered == ()


def test_a_response_answers_the_items_in_one_turn() -> None:
    lab = opened()
    lab.send(create(sound(300), sound(200)), CreateResponse())
    lab.run(5000)
    (unit,) = [each.prompt for each in lab.submitted]
    assert unit.final
    assert unit.audio is not None
    assert unit.audio.duration_ms == pytest.approx(500, abs=1)
    assert "response.done" in lab.types()
    assert lab.session.input_bytes == 0


def test_silent_parts_are_skipped() -> None:
    lab = opened()
    lab.send(create(sound(300, level=0.0), sound(200)), CreateResponse())
    lab.run(5000)
    assert lab.submitted[0].prompt.audio is not None
    assert lab.submitted[0].prompt.audio.duration_ms == pytest.approx(200, abs=1)


def test_an_item_of_silence_alone_says_so_and_goes_nowhere() -> None:
    lab = opened()
    lab.send(create(sound(300, level=0.0)))
    committed = next(e.to_realtime() for e in lab.events if e.type.endswith("committed"))
    assert committed["event"]["is_speech"] is False
    assert lab.session.input_bytes == 0
    assert not lab.session.state.turn_input.retained


def test_words_beside_the_sound_stay_in_the_conversation() -> None:
    lab = opened()
    lab.send(create({"type": "input_text", "text": "listen:"}, sound(300, transcript="hello")))
    message = lab.session.state.history.messages()[-1]
    assert [part["type"] for part in message["content"]] == ["text", "audio_url"]
    assert message["content"][1]["transcript"] == "hello"
    assert "conversation.item.input_audio_transcription.completed" in lab.types()


def test_pictures_become_an_item_before_the_sound() -> None:
    lab = opened()
    lab.send(create({"type": "input_image", "image_url": PNG}, sound(300)))
    assert [item.id for item in lab.session.state.items] == ["mine_image", "mine"]
    first, second = lab.session.state.history.messages()
    assert first["content"][0]["image_url"]["url"] == PNG
    assert second["content"][0]["type"] == "audio_url"


def test_the_open_turn_of_the_microphone_is_left_alone() -> None:
    lab = opened()
    lab.speak(400)
    lab.send(create(sound(300)))
    lab.speak(100)
    lab.send(Commit(response_create=True))
    lab.run(5000)
    (prompt,) = [each.prompt for each in lab.submitted]
    assert prompt.audio is not None
    assert prompt.audio.count - prompt.padding == 800 * 16
    assert lab.session.input_bytes == 0


@pytest.mark.parametrize("session", [{}, {"auto_response": True}])
def test_a_model_that_streams_hears_whole_units_and_no_wish_for_an_answer(
    session: dict[str, Any],
) -> None:
    lab = opened(Early, **session)
    lab.send(create(sound(300)))
    lab.run(3000)
    lengths = [each.prompt.audio.duration_ms for each in lab.submitted if each.prompt.audio]
    assert set(lengths) == {80}
    assert [each.prompt.final for each in lab.submitted][-1] is True
    assert not any(each.prompt.respond for each in lab.submitted if each.prompt.final)
    assert "response.created" not in lab.types()
    assert lab.session.input_bytes == 0


def test_an_item_too_large_for_the_input_is_refused() -> None:
    lab = SessionLab(
        Scripted({"script": {"turns": "commit"}}),
        limits=DuplexSessionRuntimeConfig(max_pending_input_bytes_per_session=10_000),
    )
    lab.send(create(sound(300), sound(300)))
    error = lab.events[-1].to_realtime()["error"]
    assert (error["code"], error["event_id"]) == ("input_backpressure", "c1")
    assert lab.session.input_bytes == 0
    assert "mine" not in lab.session.state.items


def test_later_commands_wait_for_the_item_and_a_heartbeat_does_not() -> None:
    lab = opened()
    waiting: list[Any] = []
    lab.faults[effects.DecodeAudio] = waiting.append
    lab.send(create(sound(300)), RetrieveItem(item_id="mine"), Heartbeat())
    assert lab.types()[-1] == "session.heartbeat_ack"
    while waiting:
        lab.carry_out(waiting.pop(0))
    assert lab.types()[-1] == "conversation.item.retrieved"


def test_a_barge_in_aborts_an_item_that_is_still_decoded() -> None:
    lab = opened()
    waiting: list[Any] = []
    lab.faults[effects.DecodeAudio] = waiting.append
    lab.send(create(sound(300)), BargeIn())
    lab.carry_out(waiting.pop(0))
    errors = [event.to_realtime()["error"] for event in lab.events if event.type == "error"]
    assert [(each["code"], each["event_id"]) for each in errors] == [("commit_aborted", "c1")]
    assert lab.session.input_bytes == 0


def test_a_decoder_that_fails_refuses_the_item() -> None:
    lab = opened()
    fault = inputs.Fault("bad_audio", "on purpose")
    lab.faults[effects.DecodeAudio] = lambda effect: inputs.AudioDecoded(effect.op, fault=fault)
    lab.send(create(sound(300), sound(300)))
    errors = [event.to_realtime()["error"] for event in lab.events if event.type == "error"]
    assert ("bad_audio", "c1") in [(each["code"], each.get("event_id")) for each in errors]
    assert lab.session.input_bytes == 0
    assert "mine" not in lab.session.state.items
