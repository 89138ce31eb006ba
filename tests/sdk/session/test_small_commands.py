"""Commands that do one small thing: signals, text for the open turn, pictures with the sound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexCapabilities
from duplex_sdk.protocol.duplex import (
    AckPlayback,
    AppendAudio,
    AppendText,
    Commit,
    CreateResponse,
    RealtimeCommand,
    SignalTurn,
)
from duplex_sdk.session import effects
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab, tone

VIDEO = {"optional_input_modalities": ("video",)}
JPEG = b"\xff\xd8\xff\xe0" + bytes(60)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(60)


class Able(Scripted):
    """The scripted model with other capabilities."""

    changes: dict[str, Any]

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return replace(super().capabilities(max_sessions=max_sessions), **self.changes)


def lab_of(turns: str = "commit", session: Any = None, **changes: Any) -> SessionLab:
    answers = [{"ms": 1000, "delay_ms": 0}]
    plugin = Able({"script": {"turns": turns, "unit_ms": 100, "answers": answers}})
    plugin.changes = changes
    return SessionLab(plugin, session or {})


def of(lab: SessionLab, wire_type: str) -> list[dict[str, Any]]:
    return [r for r in (e.to_realtime() for e in lab.events) if r["type"] == wire_type]


def code(lab: SessionLab) -> tuple[str, str | None]:
    error = lab.events[-1].to_realtime()["error"]
    return error["code"], error.get("event_id")


# turn.signal


@pytest.mark.parametrize(
    ("event", "state"),
    [
        ("user_started", "user_speaking"),
        ("user_committed", "user_committed"),
        ("assistant_started", "assistant_generating"),
        ("assistant_done", "idle"),
        ("anything_else", "idle"),
    ],
)
def test_a_signal_sets_the_state_that_it_names_and_is_told(event: str, state: str) -> None:
    lab = lab_of()
    lab.send(SignalTurn(event=event))
    told = lab.events[-1].to_realtime()
    assert (told["type"], told["event"], told["turn_state"]) == ("turn.event", event, state)
    assert lab.session.public_session["turn_state"] == state


def test_a_signalled_acknowledgement_moves_the_ledger_and_no_state() -> None:
    lab = lab_of()
    lab.send(CreateResponse())
    lab.run(2000)
    lab.send(SignalTurn(event="playback_ack", payload={"played_ms": 400}))
    acked, told = (each.to_realtime() for each in lab.events[-2:])
    assert acked["event"]["playback"]["played_ms"] == 400
    assert (told["type"], told["turn_state"]) == ("turn.event", "idle")


@pytest.mark.parametrize(
    "payload", [{}, {"played_ms": "400"}, {"played_ms": True}, {"played_ms": 4, "committed_ms": -1}]
)
def test_a_signalled_acknowledgement_without_a_position_is_refused(payload: Any) -> None:
    lab = lab_of()
    lab.send(SignalTurn(event="playback_ack", payload=payload, event_id="c1"))
    assert code(lab) == ("bad_event", "c1")
    assert of(lab, "turn.event") == []


# what a model has not


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("supports_input_append", AppendAudio(audio=tone(100), event_id="c1")),
        ("supports_external_turn_signal", SignalTurn(event="user_started", event_id="c1")),
        ("supports_playback_ack", AckPlayback(played_ms=1, event_id="c1")),
        ("supports_audio_truncate", AckPlayback(played_ms=1, truncate=True, event_id="c1")),
    ],
)
def test_what_a_model_has_not_is_refused_and_leaves_no_trace(
    missing: str, command: RealtimeCommand
) -> None:
    lab = lab_of(**{missing: False})
    lab.send(command)
    assert code(lab) == ("unsupported", "c1")
    assert lab.session.input_bytes == 0
    able = lab_of()
    able.send(command)
    assert "unsupported" not in [each["error"]["code"] for each in of(able, "error")]


# input.text.append


def test_text_of_the_open_turn_is_answered_with_it() -> None:
    lab = lab_of()
    lab.speak(200)
    lab.send(AppendText(text="in French, please"))
    lab.send(Commit(response_create=True))
    lab.run(3000)
    (item,) = [each["item"] for each in of(lab, "conversation.item.done")][:1]
    assert item["content"] == [{"type": "input_text", "text": "in French, please"}]
    assert [m["role"] for m in lab.session.state.history.messages()] == [
        "user",
        "user",
        "assistant",
    ]
    assert not lab.session.state.history.unanswered


def test_a_model_that_takes_its_own_turns_takes_no_text_into_them() -> None:
    lab = lab_of("native")
    lab.send(AppendText(text="hello", event_id="c1"))
    assert code(lab) == ("native_text_append_unsupported", "c1")
    assert not lab.session.state.history.messages()


# frames


def frames(lab: SessionLab) -> list[tuple[bytes, ...]]:
    return [tuple(image.data for image in each.prompt.images) for each in lab.submitted]


def test_frames_ride_with_the_unit_that_their_append_closes() -> None:
    lab = lab_of("native", {"auto_response": True}, **VIDEO)
    lab.send(AppendAudio(audio=tone(50)))
    lab.send(AppendAudio(audio=tone(50), video_frames=(JPEG, PNG)))
    lab.send(AppendAudio(audio=tone(100)))
    assert frames(lab) == [(JPEG, PNG), ()]
    assert [image.mime for image in lab.submitted[0].prompt.images] == ["image/jpeg", "image/png"]


def test_of_several_groups_in_one_unit_the_newest_is_seen() -> None:
    lab = lab_of("native", {"auto_response": True}, **VIDEO)
    lab.send(AppendAudio(audio=tone(40), video_frames=(JPEG,)))
    lab.send(AppendAudio(audio=tone(60), video_frames=(PNG,)))
    assert frames(lab) == [(PNG,)]


def test_frames_of_a_committed_turn_go_with_it() -> None:
    lab = lab_of(**VIDEO)
    lab.send(AppendAudio(audio=tone(200), video_frames=(JPEG,)), Commit(response_create=True))
    assert frames(lab) == [(JPEG,)]
    assert lab.session.input_bytes == 0


def test_frames_count_as_input_until_their_append_is_decoded() -> None:
    lab = lab_of(**VIDEO)
    lab.faults[effects.DecodeAudio] = lambda effect: None
    lab.send(AppendAudio(audio=tone(100), video_frames=(JPEG,)))
    assert lab.session.input_bytes == len(tone(100)) + len(JPEG)


@pytest.mark.parametrize(
    ("changes", "command"),
    [
        ({"optional_input_modalities": ()}, AppendAudio(audio=tone(100), video_frames=(JPEG,))),
        (VIDEO, AppendAudio(video_frames=(JPEG,))),
        (
            {"required_input_modalities": ("audio", "video"), "optional_input_modalities": ()},
            AppendAudio(audio=tone(100)),
        ),
    ],
    ids=["no video", "audio required", "video required"],
)
def test_a_modality_that_does_not_fit_is_refused(
    changes: dict[str, Any], command: AppendAudio
) -> None:
    lab = lab_of(**changes)
    lab.send(command)
    assert code(lab)[0] == "invalid_input_modality"
    assert lab.session.input_bytes == 0


def test_frames_alone_reach_a_model_that_needs_no_sound() -> None:
    changes = {"required_input_modalities": (), "optional_input_modalities": ("audio", "video")}
    lab = lab_of("native", {"auto_response": True}, **changes)
    lab.send(AppendAudio(video_frames=(JPEG,)))
    assert frames(lab) == [(JPEG,)]


# a cut past what was made


def test_a_cut_past_what_was_made_cuts_what_is_made_later_in_both_ledgers() -> None:
    lab = lab_of(session={"playback_commit_policy": "ack_only"})
    lab.send(CreateResponse())
    lab.run(100)
    response = lab.session.state.response
    assert response is not None
    made_ms = response.audio_ms
    lab.send(AckPlayback(response_id=response.id, played_ms=9000, truncate=True))
    lab.run(3000)
    cursor = lab.session.state.playback.cursor(response.id)
    assert cursor is not None
    assert (cursor.cap_ms, cursor.committed_ms) == (made_ms, made_ms)
    lab.send(AckPlayback(response_id=response.id, played_ms=1000))
    assert of(lab, "playback.acknowledged")[-1]["event"]["committed_ms"] == int(made_ms)
    said = of(lab, "response.output_audio_transcript.done")[0]["transcript"]
    item = lab.session.state.items.get(response.item_id)
    assert item is not None
    assert len(item.content[0].transcript) < len(said)
